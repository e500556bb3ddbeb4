"""C4: however many wrong passwords arrive, few are compared, the rest is refused at once, and right users get in."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import pytest

from rota.model.sign_in.attempts import ALL, FREE_FAILURES, OF_ADDRESS, OF_ALL, address_key
from rota.store.sign_in_attempts import give_back, take_failure, take_rate
from tests.api.accounts.people import People
from tests.api.served import Served, problem
from tests.api.sign_in.people import PASSWORD, SignIn, somewhere
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

WRONG = "another long password"


@pytest.fixture(autouse=True)
def _alone(people: SignIn) -> None:
    """What other tests failed at is not counted here."""
    people.forget_attempts()


def _attempt(people: SignIn, name: str, password: str, address: str) -> tuple[int, str]:
    answer = people.browser(address).json("POST", "/v1/sign-in", {"name": name, "password": password})
    return answer.status_code, "" if answer.status_code < 300 else problem(answer).slug


def test_after_five_failures_an_account_waits_and_a_right_password_does_not_help(people: SignIn) -> None:
    ann = people.user()
    for _ in range(FREE_FAILURES):
        assert _attempt(people, ann, WRONG, somewhere()) == (401, "sign-in-failed")
    for password in (WRONG, PASSWORD):
        answer = people.browser().json("POST", "/v1/sign-in", {"name": ann, "password": password})
        assert problem(answer).slug == "too-many-attempts"
        assert 0 < int(answer.headers["retry-after"]) <= 60
    page = people.browser().sign_in(ann, PASSWORD)
    assert (page.status, "too many attempts" in page.text) == (429, True)


def test_an_unknown_name_waits_as_a_known_one_does(people: SignIn) -> None:
    for _ in range(FREE_FAILURES):
        assert _attempt(people, "nobody-here", WRONG, somewhere()) == (401, "sign-in-failed")
    assert _attempt(people, "Nobody-Here", WRONG, somewhere()) == (429, "too-many-attempts")


def test_a_browser_that_signed_in_before_passes_while_strangers_fail(people: SignIn) -> None:
    """No account is ever locked for good: the user has the browser of yesterday."""
    ann = people.user()
    browser = people.signed_in(ann)
    browser.send(browser.get("/ui/"), "/ui/sign-out")
    for _ in range(FREE_FAILURES + 1):
        _attempt(people, ann, WRONG, somewhere())
    assert _attempt(people, ann, PASSWORD, somewhere()) == (429, "too-many-attempts")
    assert browser.sign_in(ann, PASSWORD).path == "/ui/"
    assert _attempt(people, ann, PASSWORD, somewhere()) == (429, "too-many-attempts"), "the stranger still waits"


def test_a_known_browser_has_limits_of_its_own(people: SignIn) -> None:
    ann = people.user()
    browser = people.signed_in(ann)
    statuses = [browser.sign_in(ann, WRONG).status for _ in range(FREE_FAILURES + 1)]
    assert statuses == [401] * FREE_FAILURES + [429]
    assert people.signed_in(ann), "and others still sign in"


def test_the_cookie_of_a_known_browser_is_for_one_user_and_can_not_be_invented(people: SignIn) -> None:
    ann, bob = people.user(), people.user()
    for _ in range(FREE_FAILURES):
        _attempt(people, bob, WRONG, somewhere())
    anns = people.signed_in(ann).cookie("rota-device")
    assert anns is not None
    [(number,)] = people.acme.served.ask("select id from principals where name = $1", bob)
    _, device, signature = anns.split(".")
    for forged in (anns, f"{number}.{device}.{signature}", f"{number}.{'x' * 16}.{'0' * 64}", "x", "1.2.3"):
        browser = people.browser(**{"cookie": f"rota-device={forged}"})
        assert browser.json("POST", "/v1/sign-in", {"name": bob, "password": PASSWORD}).status_code == 429


def _use_up(people: SignIn, key: str) -> None:
    """The row says that the rate is used up, as a real attack would; how fast this machine is does not matter."""
    people.acme.served.ask(
        """insert into sign_in_attempts (key, free_at) values ($1, now() + interval '1 hour')
            on conflict (key) do update set free_at = excluded.free_at""",
        key,
    )


def test_a_known_browser_passes_also_from_a_network_that_fails(people: SignIn) -> None:
    ann, office = people.user(), somewhere()
    home = people.signed_in(ann, address=office)
    _use_up(people, address_key(office))
    assert _attempt(people, ann, PASSWORD, office) == (429, "too-many-attempts")
    assert home.sign_in(ann, PASSWORD).path == "/ui/"


def test_success_takes_nothing_from_what_an_office_may_try(people: SignIn) -> None:
    ann, office = people.user(), somewhere()
    for _ in range(OF_ADDRESS.per_minute + 5):
        assert _attempt(people, ann, PASSWORD, office) == (200, "")


def test_the_next_network_is_not_slowed_down_by_one_that_fails(people: SignIn) -> None:
    here = somewhere()
    _use_up(people, address_key(here))
    neighbour = f"{here.rpartition('.')[0]}.77"
    assert _attempt(people, "nobody", WRONG, here)[0] == 429
    assert _attempt(people, "nobody", WRONG, neighbour)[0] == 429, "of the same network"
    assert _attempt(people, "nobody", WRONG, somewhere())[0] == 401


async def test_a_rate_lets_a_minutes_worth_through_at_once_and_then_one_at_a_time(database: str) -> None:
    """However long the attempts take: those beyond the first 20 need three seconds each."""
    connection = await asyncpg.connect(database)
    try:
        began = await connection.fetchval("select clock_timestamp()")
        waits = [await take_rate(connection, "address:x", OF_ADDRESS) for _ in range(OF_ADDRESS.per_minute + 20)]
        spent = (await connection.fetchval("select clock_timestamp()") - began).total_seconds()
        assert waits[: OF_ADDRESS.per_minute] == [None] * OF_ADDRESS.per_minute
        assert waits.count(None) <= OF_ADDRESS.per_minute + spent / OF_ADDRESS.seconds_each + 1
        assert all(0 <= wait <= OF_ADDRESS.seconds_each for wait in waits if wait is not None)
        await give_back(connection, [("address:x", OF_ADDRESS)])
        assert await take_rate(connection, "address:x", OF_ADDRESS) is None, "a success gave one back"
    finally:
        await connection.close()


async def test_attempts_at_the_same_moment_are_counted_one_after_the_other(database: str) -> None:
    pool = await asyncpg.create_pool(database, min_size=20, max_size=20)

    async def attempt() -> float | None:
        async with pool.acquire() as connection:
            return await take_failure(connection, "account:x")

    try:
        waits = await asyncio.gather(*(attempt() for _ in range(60)))
    finally:
        await pool.close()
    assert waits.count(None) == FREE_FAILURES
    assert all(wait is None or 0 <= wait <= 60 for wait in waits)


def test_a_flood_is_refused_without_work_and_the_right_user_signs_in_from_elsewhere(people: SignIn) -> None:
    """The flood goes on until the user is in. Of all its requests only as many are compared as its network may send."""
    ann = people.user()
    home = people.signed_in(ann)
    home.send(home.get("/ui/"), "/ui/sign-out")
    attacker = somewhere()
    over = threading.Event()
    said: Counter[int] = Counter()
    lock = threading.Lock()

    def flood(number: int) -> None:
        browser = people.browser(attacker)
        sent = 0
        while not over.is_set() or sent < 40:
            answer = browser.json("POST", "/v1/sign-in", {"name": f"victim-{number}-{sent % 50}", "password": WRONG})
            with lock:
                said[answer.status_code] += 1
            sent += 1

    with ThreadPoolExecutor(8) as crowd:
        floods = [crowd.submit(flood, number) for number in range(8)]
        try:
            assert people.signed_in(ann), "from an address that has nothing to do with it"
            assert home.sign_in(ann, PASSWORD).path == "/ui/"
            assert people.acme.served.send("GET", "/v1/tasks").status_code == 200
        finally:
            over.set()
        for one in floods:
            one.result()
    assert sum(said.values()) >= 320
    assert set(said) <= {401, 429, 503}
    [(began, now)] = people.acme.served.ask(
        "select min(at), clock_timestamp() from audit_log where action = 'session.start' and actor like 'victim-%'"
    )
    minutes = (now - began).total_seconds() / 60
    assert said[401] <= OF_ADDRESS.per_minute * (1 + minutes) + 1, "each of these was a comparison; nothing else was"
    assert said[429] + said[503] >= sum(said.values()) - said[401]


@pytest.fixture
def apart(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignIn]:
    """A server node of its own: what it refuses to all, it refuses to no other test."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("apart"), time_scale=CALM) as running:
        running.add_server()
        yield SignIn(People.at(Served.on(running)))


def test_in_all_only_so_many_are_compared_in_a_minute_but_known_browsers_pass(apart: SignIn) -> None:
    """Many networks at once: the whole has a limit too. The row says that it is reached, as a real attack would."""
    people, ann = apart, apart.user()
    home = people.signed_in(ann)
    _use_up(people, ALL)
    assert OF_ALL.per_minute == 200
    assert _attempt(people, "somebody", WRONG, somewhere()) == (429, "too-many-attempts")
    assert home.sign_in(ann, PASSWORD).path == "/ui/"


def test_failures_are_audited_but_do_not_fill_the_disk(people: SignIn) -> None:
    ann = people.user()
    for _ in range(FREE_FAILURES + 4):
        _attempt(people, ann, WRONG, somewhere())
    entries = people.audited(ann, "session.start")
    assert entries.count(("failed", "wrong password")) == 1, "one row a minute for each account"
    refused = people.acme.served.ask(
        "select count(*) from audit_log where action = 'session.start' and outcome = 'denied' and actor = $1", ann
    )
    assert refused[0][0] <= 1
    [(tenant,)] = people.acme.served.ask("select tenant from audit_log where actor = $1 and outcome = 'failed'", ann)
    assert tenant == people.acme.tenant_id


def test_waits_grow_to_a_quarter_of_an_hour_and_are_forgotten(people: SignIn) -> None:
    """The clock is in the row: each round moves it to the end of the wait."""
    name = "patient-stranger"
    waits = []
    for _ in range(FREE_FAILURES):
        _attempt(people, name, WRONG, somewhere())
    for _ in range(7):
        [(wait,)] = people.acme.served.ask(
            "select extract(epoch from free_at - now()) from sign_in_attempts where key like 'account:%'"
        )
        waits.append(math.ceil(float(wait) / 60))
        people.acme.served.ask("update sign_in_attempts set free_at = now() where key like 'account:%'")
        _fresh_node_memory(people, name)
    assert waits == [1, 2, 4, 8, 15, 15, 15]


def _fresh_node_memory(people: SignIn, name: str) -> None:
    """The node remembers nothing that it did not refuse, so the next attempt asks the database."""
    assert _attempt(people, name, WRONG, somewhere()) == (401, "sign-in-failed")
