"""Submitting while a server node, its database or the reply to a commit goes away (I1, I2, I3; F1, F3, F4, F5, F34)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.nemesis import start_postgres
from tests.faults.scene import MODULES, Scene, Spec, eventually, kill
from tests.faults.submitter import Submitter
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

COMMIT = b"commit\0"  # how an admission's commit looks on its way to PostgreSQL: a simple query


def _in_many_steps(scene: Scene) -> Spec:
    """A task whose admission is a transaction with a commit. One without parents, if alone, is a single statement."""
    parent = asyncio.run(_submit_one(scene, scene.cluster.urls[0], "parent", scene.function()))
    assert parent is not None
    return scene.function(after=[parent.json()["id"]])


async def _submit_one(scene: Scene, url: str, key: str, task: Spec) -> httpx.Response | None:
    async with _http(scene) as http:
        return await _submit(http, scene, url, key, task)


async def _submit(http: httpx.AsyncClient, scene: Scene, url: str, key: str, task: Spec) -> httpx.Response | None:
    """One single submission; None when the connection broke before an answer came."""
    scene.clients.attempt(key)
    try:
        answer = await http.post(f"{url}/v1/tasks", json=task, headers={"idempotency-key": key})
    except httpx.HTTPError as error:
        scene.clients.fail(repr(error))
        return None
    if answer.is_success:
        scene.clients.acknowledge(key, answer.json()["id"])
    return answer


def _http(scene: Scene, *, connections: int = 200) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        timeout=30,
        trust_env=False,
        limits=httpx.Limits(max_connections=connections),
        headers={"authorization": f"Bearer {scene.cluster.tokens.admin}"},
    )


def test_submits_in_flight_when_their_server_is_killed_are_taken_once_by_another(scene: Scene) -> None:
    scene.start(servers=1, workers=1)
    # So that a commit takes a while, also as seen from a busy machine.
    scene.add_server_behind(database=True).delay(0.02)
    survivor, victim = scene.cluster.urls
    keys = [f"submit-{number}" for number in range(200)]

    async def attack() -> list[httpx.Response | None]:
        async with _http(scene) as http:
            while True:  # until it has all its connections, which take many of the slow ways to and fro
                answer = await _submit(http, scene, victim, "before", scene.function())
                if answer is not None and answer.is_success:
                    break
            tries = [asyncio.create_task(_submit(http, scene, victim, key, scene.function())) for key in keys]
            await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
            scene.cluster.servers[1].kill()
            return list(await asyncio.gather(*tries))

    async def recover() -> list[httpx.Response | None]:
        async with _http(scene) as http:
            return list(await asyncio.gather(*(_submit(http, scene, survivor, key, scene.function()) for key in keys)))

    first = asyncio.run(attack())
    assert {answer.status_code for answer in first if answer is not None} == {201}
    assert first.count(None) > 100, "the server died while most submits were in flight"
    again = asyncio.run(recover())
    assert {answer.status_code for answer in again if answer is not None} <= {200, 201}
    assert None not in again
    assert scene.clients.unknown == set()
    scene.judge()


@pytest.mark.parametrize(("clients", "last"), [(3, COMMIT), (1, b"client-0-")], ids=["many steps", "one statement"])
def test_a_lost_reply_to_commit_never_makes_two_tasks(scene: Scene, clients: int, last: bytes) -> None:
    """A task that comes alone is one statement, which has its key in it, and commits with it."""
    proxy = scene.add_server_behind(database=True)
    scene.cluster.add_worker()
    times = 100 if clients > 1 else 30
    trap = proxy.swallow_reply(after=last, times=times)

    async def submit_in_turn(http: httpx.AsyncClient, client: int) -> list[int]:
        statuses = []
        while trap.is_armed:
            key = f"client-{client}-{len(statuses)}"
            answer = await _submit(http, scene, scene.cluster.urls[0], key, scene.function())
            assert answer is not None
            statuses.append(answer.status_code)
        return statuses

    async def submit_all() -> list[list[int]]:
        async with _http(scene) as http:
            return await asyncio.gather(*(submit_in_turn(http, client) for client in range(clients)))

    statuses = [status for several in asyncio.run(submit_all()) for status in several]
    trap.wait(times)
    assert set(statuses) == {201}
    keys = Counter(row["idempotency_key"] for row in scene.query("select idempotency_key from tasks"))
    assert keys == Counter(scene.clients.attempted)
    scene.judge()


@pytest.mark.parametrize("alone", [False, True])
def test_a_commit_nobody_can_tell_about_is_answered_with_its_key_and_the_key_tells_later(
    scene: Scene, alone: bool
) -> None:
    proxy = scene.add_server_behind(database=True)
    task = scene.function() if alone else _in_many_steps(scene)
    trap = proxy.swallow_reply(after=b"in-doubt" if alone else COMMIT, and_cut=True)
    url = scene.cluster.urls[0]

    async def submit() -> httpx.Response | None:
        return await _submit_one(scene, url, "in-doubt", task)

    answer = asyncio.run(submit())
    trap.wait()
    assert answer is not None
    problem = answer.json()
    assert (answer.status_code, problem["type"].rpartition("/")[2]) == (503, "outcome-unknown")
    assert problem["idempotency_key"] == "in-doubt"
    assert "retry-after" in answer.headers
    proxy.heal()
    again = eventually(
        lambda: (found := asyncio.run(submit())) and found.is_success and found,
        seconds=10,
        what="the database is back",
    )
    assert (again.status_code, again.json()["created"]) == (200, False)
    keys = [row["idempotency_key"] for row in scene.query("select idempotency_key from tasks order by id")]
    assert keys == (["in-doubt"] if alone else ["parent", "in-doubt"])
    scene.cluster.add_worker()
    scene.judge()


def test_fifty_identical_submits_over_three_nodes_make_one_task(scene: Scene) -> None:
    scene.start(servers=3, workers=1)

    async def submit_all() -> list[httpx.Response | None]:
        async with _http(scene) as http:
            urls = scene.cluster.urls
            return await asyncio.gather(
                *(_submit(http, scene, urls[number % 3], "same", scene.function()) for number in range(50))
            )

    answers = asyncio.run(submit_all())
    statuses = Counter(answer.status_code for answer in answers if answer is not None)
    assert statuses[201] == 1
    assert statuses.total() == 50
    assert set(statuses) <= {200, 201, 409}
    assert len({answer.json()["id"] for answer in answers if answer is not None and answer.is_success}) == 1
    scene.judge()


def test_a_server_cut_off_from_its_database_says_so_in_time_and_recovers_by_itself(scene: Scene) -> None:
    proxy = scene.add_server_behind(database=True)
    url = scene.cluster.urls[0]

    async def submit_all(keys: list[str]) -> list[tuple[httpx.Response | None, float]]:
        async def timed(http: httpx.AsyncClient, key: str) -> tuple[httpx.Response | None, float]:
            began = time.monotonic()
            return await _submit(http, scene, url, key, scene.function()), time.monotonic() - began

        async with _http(scene) as http:
            return await asyncio.gather(*(timed(http, key) for key in keys))

    keys = [f"dark-{number}" for number in range(20)]
    asyncio.run(submit_all(["before"]))
    proxy.blackhole()
    for answer, seconds in asyncio.run(submit_all(keys)):
        assert answer is not None
        assert answer.status_code == 503, answer.text
        assert "retry-after" in answer.headers
        assert seconds < 6
    began = time.monotonic()
    assert scene.get("/readyz").status_code == 503
    assert time.monotonic() - began < 6
    assert scene.get("/healthz").status_code == 200
    proxy.heal()
    eventually(lambda: scene.get("/readyz").status_code == 200, seconds=10, what="the server is ready again")
    for answer, _ in asyncio.run(submit_all(keys)):
        assert answer is not None
        assert answer.is_success, answer.text
    scene.cluster.add_worker()
    scene.judge()


def test_a_key_can_be_used_again_soon_after_its_connection_was_stranded_in_a_transaction(scene: Scene) -> None:
    """The server's end of the connection is gone, PostgreSQL's is not: nobody tells it for a long time."""
    proxy = scene.add_server_behind(database=True)
    other = len(scene.cluster.urls)
    scene.cluster.add_server()
    task = _in_many_steps(scene)

    async def submit(server: int, seconds: float) -> httpx.Response | None:
        async with _http(scene) as http:
            http.timeout = seconds
            return await _submit(http, scene, scene.cluster.urls[server], "stranded", task)

    proxy.strand_after(COMMIT)  # the commit itself does not get through
    answer = asyncio.run(submit(0, 30))
    assert answer is not None
    assert answer.status_code == 503, answer.text

    def retry() -> httpx.Response | None:
        found = asyncio.run(submit(other, 10))
        return found if found is not None and found.is_success else None

    assert eventually(retry, seconds=20, what="the key's owner is found dead").json()["id"]
    scene.cluster.add_worker()
    scene.judge()


# ---- PostgreSQL itself ---------------------------------------------------------------------------------------------


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[TestPostgres]:
    postgres = TestPostgres(tmp_path / "pg")
    postgres.start()
    yield postgres
    postgres.stop()


def test_postgres_killed_under_steady_submits_loses_nothing_that_was_acknowledged(
    own_postgres: TestPostgres, tmp_path: Path
) -> None:
    with Cluster(own_postgres.create(), tmp_path / "cluster", modules=MODULES) as cluster:
        scene = Scene(cluster)
        scene.start(servers=2, workers=1)
        submitters = [
            Submitter(scene, name=f"client-{number}", seed=number, tasks=1_000, seconds=5) for number in range(2)
        ]
        for submitter in submitters:
            submitter.start()
        eventually(lambda: len(scene.clients.tasks) > 300, seconds=20, what="tasks flow")
        assert own_postgres.server.pid is not None
        assert kill(own_postgres.server.pid)
        before = len(scene.clients.tasks)
        eventually(lambda: scene.clients.errors, seconds=10, what="clients notice")
        start_postgres(own_postgres)
        eventually(lambda: len(scene.clients.tasks) > before + 100, seconds=30, what="submits go on")
        for submitter in submitters:
            submitter.join(60)
            assert not submitter.is_alive()
            assert submitter.refused == []
        scene.until_all_ended(seconds=30)
        assert len(scene.query("select from leases where pool > 0 and expires_at > now()")) == 1
        scene.leader()
        scene.judge()
        scene.close()
