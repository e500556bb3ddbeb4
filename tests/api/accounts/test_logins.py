"""Logins of programs over HTTP: what pages show and refuse, and what becomes of codes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import httpx
import pytest

from rota.model.accounts import logins as rules
from tests.api.accounts.browser import (
    BACK,
    CODE,
    STATE,
    VERIFIER,
    Browser,
    answer_in,
    hidden_of,
    login_address,
)
from tests.api.accounts.people import EVERYWHERE, People
from tests.api.served import Said, problem


@pytest.fixture
def ann(acme: People) -> str:
    return acme.add_user("member")


@pytest.fixture
def browser(acme: People, ann: str) -> Browser:
    return Browser.of(acme, ann)


@pytest.fixture(autouse=True)
def fresh_counts(acme: People) -> None:
    """Tests share an address: one's tries and waiting logins are not another's."""
    acme.served.ask("delete from sign_in_attempts where key like 'login:%'")
    acme.served.ask("delete from cli_logins where decided_at is null")


def exchange(acme: People, code: str, verifier: str = VERIFIER) -> httpx.Response:
    return acme.send("POST", "/v1/login/token", {"code": code, "code_verifier": verifier}, token=None)


def start(acme: People, **asked: object) -> dict[str, Any]:
    answer = acme.send("POST", "/v1/login/device", {"machine": "headless", **asked}, token=None)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def ask(acme: People, device_code: str) -> httpx.Response:
    return acme.send("POST", "/v1/login/token", {"device_code": device_code}, token=None)


def whoami(acme: People, token: str) -> httpx.Response:
    return acme.send("GET", "/v1/whoami", token=token)


def entries(acme: People, actor: str) -> list[tuple[Any, ...]]:
    """What the audit log says of a user, in order."""
    return acme.served.ask("select action, outcome, reason from audit_log where actor = $1 order by id", actor)


# ---- in a browser ------------------------------------------------------------------------------------------------------


def test_a_user_allows_a_program_and_it_gets_a_token_that_is_never_more_than_the_user(
    acme: People, ann: str, browser: Browser
) -> None:
    shown = browser.get(login_address())
    for part in (f"as {ann}?", "laptop", "127.0.0.1:40123", acme.tenant, "30d", "cli-laptop", "Only continue if"):
        assert part in shown.text
    assert "form-action 'self' http://127.0.0.1:40123;" in shown.headers["content-security-policy"]
    led = browser.decide(shown)
    assert (led.status_code, answer_in(led)["state"]) == (303, STATE)
    made = exchange(acme, answer_in(led)["code"])
    assert made.status_code == 201
    document = made.json()
    assert (document["user"], document["tenant"], document["name"]) == (ann, acme.tenant, "cli-laptop")
    lasts = datetime.fromisoformat(document["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < lasts <= timedelta(days=30)
    who = whoami(acme, document["token"]).json()
    assert "tasks:submit" in who["scopes"]
    assert not {"tokens:write", "users:write"} & set(who["scopes"])
    acme.send("DELETE", f"/v1/users/{ann}/bindings?role=member&tenant={acme.tenant}", token=acme.admin)
    assert whoami(acme, document["token"]).json()["scopes"] == []
    assert [(action, outcome) for action, outcome, _ in entries(acme, ann)] == [
        ("login.allow", "done"),
        ("token.add", "done"),
    ]


def test_an_administrator_is_told_that_the_program_manages_accounts_too(acme: People) -> None:
    root = acme.add_user("admin", **EVERYWHERE)
    assert "also manage users and tokens" in Browser.of(acme, root).get(login_address()).text


def test_a_code_is_good_once_and_its_second_use_ends_the_token(acme: People, ann: str, browser: Browser) -> None:
    code = browser.code_for()
    token = exchange(acme, code).json()["token"]
    assert whoami(acme, token).status_code == 200
    again = exchange(acme, code)
    assert problem(again) == Said(400, "invalid-grant")
    assert "revoked" in again.json()["detail"]
    assert whoami(acme, token).status_code == 401
    assert ("token.revoke", "done", "the code of its login was used for a second time") in entries(acme, ann)


def test_of_many_who_send_a_code_at_once_one_gets_a_token_and_it_ends(acme: People, ann: str, browser: Browser) -> None:
    code = browser.code_for()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: exchange(acme, code), range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] + [400] * 7
    assert acme.served.ask("select revoked_at is not null from tokens where user_name = $1", ann) == [(True,)]


def test_a_code_without_the_verifier_of_its_challenge_is_worthless_and_spent(
    acme: People, ann: str, browser: Browser
) -> None:
    code = browser.code_for()
    assert problem(exchange(acme, code, "w" * 50)) == Said(400, "invalid-grant")
    assert problem(exchange(acme, code)) == Said(400, "invalid-grant")
    assert ("login.exchange", "denied", "the verifier is wrong") in entries(acme, ann)
    assert not acme.served.ask("select from tokens where user_name = $1", ann)


def test_a_code_that_is_older_than_a_minute_is_worthless(acme: People, ann: str, browser: Browser) -> None:
    code = browser.code_for()
    [(ends,)] = acme.served.ask(
        "select expires_at - decided_at from cli_logins where principal = (select id from principals where name = $1)",
        ann,
    )
    assert ends == timedelta(seconds=60)
    acme.served.ask(
        """update cli_logins set expires_at = now() where principal = (select id from principals where name = $1)""",
        ann,
    )
    assert problem(exchange(acme, code)) == Said(400, "expired-token")


def test_an_unknown_code_and_a_device_code_in_its_place_say_the_same(acme: People) -> None:
    device = start(acme)["device_code"]
    for code in ("x", "", "ä\U0001f600", device):
        assert problem(exchange(acme, code)) == Said(400, "invalid-grant")
        if code != device:
            assert problem(ask(acme, code)) == Said(400, "invalid-grant")
    half = acme.send("POST", "/v1/login/token", b'{"device_code": "\\ud800"}', token=None)
    assert half.status_code == 422


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/code"),
        ({"code": "x", "device_code": "y"}, "/code"),
        ({"code": "x"}, "/code_verifier"),
        ({"code": "x", "code_verifier": "short"}, "/code_verifier"),
        ({"code": "x", "code_verifier": "ä" * 50}, "/code_verifier"),
    ],
)
def test_an_exchange_that_is_none_names_what_is_missing(acme: People, body: dict[str, str], pointer: str) -> None:
    answer = acme.send("POST", "/v1/login/token", body, token=None)
    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]


def test_a_refusal_goes_to_the_program_without_a_code(acme: People, ann: str, browser: Browser) -> None:
    led = browser.decide(browser.get(login_address()), "refuse")
    assert answer_in(led) == {"error": "access_denied", "state": STATE}
    assert entries(acme, ann) == [("login.refuse", "done", "")]


@pytest.mark.parametrize(
    "address",
    [
        "http://evil.example/",
        "https://127.0.0.1:40123/",
        "http://127.0.0.1/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:70000/",
        "http://127.0.0.1:40123/deeper",
        "http://127.0.0.1:40123",
        "http://127.0.0.1:40123/?x=1",
        "http://127.0.0.1:40123/\n",
        "http://127.0.0.1:40123@evil.example/",
        "http://127.0.0.1.evil.example:80/",
        "http://localhost:40123/",
        "http://[::2]:40123/",
        "//127.0.0.1:40123/",
        "javascript:alert(1)",
        "",
    ],
)
def test_an_answer_goes_to_a_port_of_the_browsers_own_machine_and_nowhere_else(browser: Browser, address: str) -> None:
    shown = browser.get(login_address(redirect_uri=address))
    assert (shown.status_code, "redirect_uri is http://127.0.0.1:PORT/" in unescape(shown.text)) == (422, True)
    fields = {**hidden_of(browser.get(login_address())), "redirect_uri": address, "decision": "allow"}
    assert "location" not in browser.post("/ui/login", fields).headers


def test_an_answer_goes_to_a_port_of_ipv6_too(browser: Browser) -> None:
    led = browser.decide(browser.get(login_address(redirect_uri="http://[::1]:40123/")))
    assert led.headers["location"].startswith("http://[::1]:40123/?code=")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"state": "short"}, "state is 16"),
        ({"code_challenge": "short"}, "code_challenge is a SHA-256"),
        ({"code_challenge_method": "plain"}, "code_challenge_method is S256"),
        ({"machine": ""}, "is not a name"),
        ({"machine": "<script>alert(1)</script>"}, "is not a name"),
        ({"machine": "a\r\nset-cookie: x=y"}, "is not a name"),
        ({"machine": "m" * 91}, "is not a name"),
        ({"lasts": "2y"}, "2y"),
        ({"lasts": "367d"}, "from 1m to 366d"),
        ({"lasts": "0s"}, "from 1m to 366d"),
        ({"tenant": "<b>"}, "there is no tenant"),
    ],
)
def test_a_request_that_is_none_is_shown_as_text_and_offers_nothing(
    browser: Browser, asked: dict[str, str], said: str
) -> None:
    shown = browser.get(login_address(**asked))
    assert shown.status_code == 422
    assert said in unescape(shown.text)
    assert "<form" not in shown.text
    assert "<script" not in shown.text
    assert "<b>" not in shown.text.replace("<b>Only", "")


def test_another_tenant_is_one_where_the_user_has_a_role(
    acme: People, other: People, ann: str, browser: Browser
) -> None:
    assert browser.get(login_address(tenant=other.tenant)).status_code == 404
    assert browser.get(login_address(tenant="none-such")).status_code == 404
    acme.give(ann, "viewer", tenant=other.tenant)
    browser = Browser.of(acme, ann)
    shown = browser.get(login_address(tenant=other.tenant))
    assert f"{other.tenant} (you are viewer)" in shown.text
    made = exchange(acme, answer_in(browser.decide(shown))["code"]).json()
    assert made["tenant"] == other.tenant
    assert "tasks:submit" not in whoami(acme, made["token"]).json()["scopes"]


def test_whoever_is_not_signed_in_signs_in_first_and_comes_back(acme: People) -> None:
    for path in (login_address(), "/ui/device?code=BCDF-GHJK"):
        led = acme.send("GET", path, token=None)
        assert led.status_code == 303
        assert led.headers["location"].startswith("/ui/sign-in?next=%2Fui%2F")
    token = acme.user("member")
    assert acme.send("GET", login_address(), token=token).status_code == 303, "a token allows no further one"


def test_a_session_that_was_not_proved_lately_allows_nothing(acme: People, ann: str, browser: Browser) -> None:
    stale = Browser.of(acme, ann, proved=False)
    device = start(acme)
    for path in (login_address(), "/ui/device"):
        led = stale.get(path)
        assert led.status_code == 303
        assert led.headers["location"].startswith("/ui/prove?next=%2Fui%2F")
    fields = {**hidden_of(browser.get(login_address())), "decision": "allow"}
    for page, form in (("/ui/login", fields), ("/ui/device", {"code": device["user_code"], "decision": "allow"})):
        led = stale.post(page, form)
        assert led.headers["location"].startswith("/ui/prove")
    assert problem(ask(acme, device["device_code"])) == Said(400, "authorization-pending")


def test_a_decision_that_another_site_sends_is_refused(acme: People, ann: str, browser: Browser) -> None:
    device = start(acme)
    fields = {**hidden_of(browser.get(login_address())), "decision": "allow"}
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "none"}):
        refused = browser.post("/ui/login", fields, **headers)
        assert (refused.status_code, "location" in refused.headers) == (403, False)
        form = {"code": device["user_code"], "decision": "allow"}
        assert browser.post("/ui/device", form, **headers).status_code == 403
    assert problem(ask(acme, device["device_code"])) == Said(400, "authorization-pending")
    assert entries(acme, ann) == []


@pytest.mark.parametrize(
    ("content", "media", "status"),
    [
        (b"\xff\xfe=%ZZ", "application/x-www-form-urlencoded", 400),
        (b"a=b&" * 50, "application/x-www-form-urlencoded", 400),
        (b"a" * 20_000, "application/x-www-form-urlencoded", 413),
        (b"{}", "application/json", 415),
        (b"", "application/x-www-form-urlencoded", 422),
    ],
)
def test_a_form_that_is_none_of_ours_is_refused(
    acme: People, browser: Browser, content: bytes, media: str, status: int
) -> None:
    headers = {**browser.headers, "content-type": media}
    assert acme.send("POST", "/ui/login", content, token=None, headers=headers).status_code == status


def test_a_token_of_the_same_name_is_replaced_and_the_page_says_so(acme: People, ann: str, browser: Browser) -> None:
    first = exchange(acme, browser.code_for()).json()
    assert first["replaces"] is None
    shown = browser.get(login_address())
    assert "your present token of this name ends" in shown.text
    second = exchange(acme, answer_in(browser.decide(shown))["code"]).json()
    assert second["replaces"] == first["id"]
    assert whoami(acme, first["token"]).status_code == 401
    assert whoami(acme, second["token"]).status_code == 200
    third = exchange(acme, browser.code_for(machine="desktop")).json()
    assert third["replaces"] is None
    assert whoami(acme, second["token"]).status_code == 200
    own = [name for _, _, name in acme.served.ask("select id, user_name, name from tokens where user_name = $1", ann)]
    assert sorted(own) == ["cli-desktop", "cli-laptop", "cli-laptop"]


def test_the_limit_of_a_plan_holds_and_the_code_survives_it(acme: People) -> None:
    small = People.at(acme.served)
    bob = small.add_user("member")
    acme.served.ask(
        'insert into plans select (jsonb_populate_record(plans, \'{"name": "one-token", "tokens": 1}\')).* from plans where name = \'unlimited\' on conflict do nothing'
    )
    changed = acme.send("PATCH", f"/v1/tenants/{small.tenant}", {"plan": "one-token"}, token=acme.admin)
    assert changed.status_code == 200, changed.text
    browser = Browser.of(small, bob)
    first = exchange(acme, browser.code_for()).json()
    code = browser.code_for(machine="second")
    assert problem(exchange(acme, code)) == Said(429, "quota-exceeded")
    assert acme.send("POST", "/v1/logout", token=first["token"]).status_code == 204
    assert exchange(acme, code).status_code == 201


def test_whoever_is_disabled_after_allowing_gives_no_token(acme: People, ann: str, browser: Browser) -> None:
    code = browser.code_for()
    assert acme.send("PATCH", f"/v1/users/{ann}", {"disabled": True}, token=acme.admin).status_code == 200
    assert problem(exchange(acme, code)) == Said(403, "access-denied")
    other = acme.add_user("member")
    code = Browser.of(acme, other).code_for()
    assert acme.send("DELETE", f"/v1/users/{other}", token=acme.admin).status_code == 204
    assert problem(exchange(acme, code)) == Said(403, "access-denied")


def test_codes_and_tokens_are_stored_as_hashes_only(acme: People, browser: Browser) -> None:
    code, device = browser.code_for(), start(acme)
    token = exchange(acme, code).json()["token"]
    rows = str(acme.served.ask("select l::text from cli_logins l union all select a::text from audit_log a"))
    for secret in (code, device["device_code"], device["user_code"], token.rpartition("_")[2], VERIFIER):
        assert secret not in rows


# ---- with a device code --------------------------------------------------------------------------------------------------


def test_a_code_is_typed_on_another_machine_and_the_program_gets_its_token(
    acme: People, ann: str, browser: Browser
) -> None:
    started = start(acme, lasts="7d")
    assert CODE.match(started["user_code"])
    assert (started["expires_in"], started["interval"]) == (600, 5)
    assert started["verification_uri"] == f"{acme.served.url}/ui/device"
    assert started["user_code"] in browser.get(started["verification_uri_complete"]).text
    assert problem(ask(acme, started["device_code"])) == Said(400, "authorization-pending")
    shown = browser.post("/ui/device", {"code": f" {started['user_code'].lower().replace('-', ' ')} "})
    for part in ("headless", "127.0.0.1", started["user_code"], "7d", "Only continue if", ann):
        assert part in shown.text
    assert "You can close this window" in browser.decide(shown).text
    made = ask(acme, started["device_code"]).json()
    assert (made["user"], made["name"]) == (ann, "cli-headless")
    assert problem(ask(acme, started["device_code"])) == Said(400, "invalid-grant")
    assert whoami(acme, made["token"]).status_code == 401, "its code was used for a second time"


def test_a_program_that_asks_too_often_is_slowed_down(acme: People) -> None:
    code = start(acme)["device_code"]
    first, second, third = ask(acme, code), ask(acme, code), ask(acme, code)
    assert problem(first) == Said(400, "authorization-pending")
    assert (first.json()["retry_after"], second.json()["retry_after"], third.json()["retry_after"]) == (5, 10, 15)
    assert problem(third) == Said(400, "slow-down")
    acme.served.ask("update cli_logins set polled_at = now() - interval '1 minute' where decided_at is null")
    assert problem(ask(acme, code)) == Said(400, "authorization-pending")


def test_a_device_code_that_is_refused_or_has_expired_says_so(acme: People, browser: Browser) -> None:
    refused, late = start(acme), start(acme)
    assert "gets no token" in browser.allow_code(refused["user_code"], "refuse").text
    assert problem(ask(acme, refused["device_code"])) == Said(403, "access-denied")
    acme.served.ask("update cli_logins set expires_at = now() where decided_at is null")
    assert problem(ask(acme, late["device_code"])) == Said(400, "expired-token")
    assert browser.post("/ui/device", {"code": late["user_code"]}).status_code == 422


def test_the_first_decision_holds(acme: People, browser: Browser) -> None:
    started = start(acme)
    shown = browser.post("/ui/device", {"code": started["user_code"]})
    assert browser.decide(shown, "refuse").status_code == 200
    assert browser.decide(shown, "allow").status_code == 422
    assert problem(ask(acme, started["device_code"])) == Said(403, "access-denied")


def test_what_a_program_says_of_itself_is_shown_as_text_and_bounded(acme: People, browser: Browser) -> None:
    agent = "<img src=x onerror=alert(1)>" + "a" * 5_000
    answer = acme.send("POST", "/v1/login/device", {"machine": "m"}, token=None, headers={"user-agent": agent})
    shown = browser.post("/ui/device", {"code": answer.json()["user_code"]})
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown.text
    assert "<img" not in shown.text
    assert "a" * 300 not in shown.text
    for machine in ("<b>", "a b", "", "a\n", "m" * 91, "ä"):
        refused = acme.send("POST", "/v1/login/device", {"machine": machine}, token=None)
        assert problem(refused) == Said(422, "invalid-name", (("/machine", "invalid-name"),))


def test_guesses_of_codes_are_few_for_a_user_and_for_an_address(acme: People, browser: Browser) -> None:
    started = start(acme)
    tried = [
        browser.post("/ui/device", {"code": "BCDF-BCDF"}).status_code for _ in range(rules.TRIES_OF_USER.per_minute + 1)
    ]
    assert tried == [422] * rules.TRIES_OF_USER.per_minute + [429]
    late = browser.post("/ui/device", {"code": started["user_code"]})
    assert late.status_code == 429
    assert 1 <= int(late.headers["retry-after"]) <= 10
    assert "headless" not in late.text
    other = Browser.of(acme, acme.add_user("member"))
    assert other.post("/ui/device", {"code": started["user_code"]}).status_code == 200
    acme.served.ask("update sign_in_attempts set free_at = now() + interval '1 hour' where key like 'login:address:%'")
    assert other.post("/ui/device", {"code": started["user_code"]}).status_code == 429
    acme.served.ask("update sign_in_attempts set free_at = now() where key like 'login:%'")
    assert browser.post("/ui/device", {"code": started["user_code"]}).status_code == 200


def test_nobody_fills_the_table_with_logins_that_wait(acme: People) -> None:
    statuses = [
        acme.send("POST", "/v1/login/device", {"machine": "m"}, token=None).status_code
        for _ in range(rules.MOST_PENDING_OF_NETWORK + 2)
    ]
    assert statuses == [201] * rules.MOST_PENDING_OF_NETWORK + [429] * 2
    acme.served.ask("update cli_logins set network = '192.0.2.0/24' where decided_at is null")
    assert acme.send("POST", "/v1/login/device", {"machine": "m"}, token=None).status_code == 201
    acme.served.ask(
        """insert into cli_logins (kind, code_hash, machine, lasts, expires_at)
        select 'device', sha256(n::text::bytea), 'm', '1d', now() + '1 minute' from generate_series(1, $1) n""",
        rules.MOST_PENDING,
    )
    full = acme.send("POST", "/v1/login/device", {"machine": "m"}, token=None)
    assert problem(full) == Said(429, "too-many-logins")
    acme.served.ask("update cli_logins set expires_at = now() where decided_at is null")
    assert acme.send("POST", "/v1/login/device", {"machine": "m"}, token=None).status_code == 201


# ---- signing out ---------------------------------------------------------------------------------------------------------


def test_a_token_revokes_itself_without_a_scope_for_it(acme: People) -> None:
    restricted = acme.token_of(acme.add_user("viewer"), scopes=["tasks:read"], names=["etl-*"])
    for token in (restricted, acme.user("member"), acme.served.add_token(acme.tenant)):
        assert acme.send("POST", "/v1/logout", token=token).status_code == 204
        assert acme.send("POST", "/v1/logout", token=token).status_code == 401


def test_a_session_is_not_a_token(acme: People, browser: Browser) -> None:
    refused = acme.send("POST", "/v1/logout", token=None, headers=browser.headers)
    assert problem(refused) == Said(409, "no-token")
    assert acme.send("GET", "/v1/whoami", token=None, headers=browser.headers).status_code == 200


def test_pages_are_named_by_the_address_that_browsers_use(acme: People) -> None:
    assert acme.send("GET", "/v1/login", token=None).json() == {
        "browser": f"{acme.served.url}/ui/login",
        "device": f"{acme.served.url}/ui/device",
    }


def test_back_is_what_the_tests_expect() -> None:
    assert rules.returned(BACK, STATE, "x" * 43, "S256", faults := rules.FaultList()).origin == BACK.rstrip("/")
    assert faults.faults == []
