"""Second factors: each code is good once, lost ones have a way out, and roles can ask for them."""

from __future__ import annotations

from collections.abc import Iterator

import pyotp
import pytest

from tests.api.accounts.people import EVERYWHERE, People
from tests.api.served import Said, Served, problem
from tests.api.sign_in.people import PASSWORD, SignIn, recovery_codes_on, secret_on
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres


def _now(secret: str) -> str:
    return pyotp.TOTP(secret).now()


def test_a_password_alone_does_not_get_past_a_second_factor(people: SignIn) -> None:
    ann = people.user()
    secret, _ = people.with_second_factor(people.signed_in(ann))
    browser = people.browser()
    page = browser.sign_in(ann, PASSWORD, after="/ui/account")
    assert "Code of your app" in page.text
    assert browser.cookie() is None
    assert page.form("/ui/sign-in/code").inputs["code"]["autocomplete"] == "one-time-code"
    wrong = browser.send(page, "/ui/sign-in/code", code="000000")
    assert (wrong.status, browser.cookie()) == (401, None)
    people.may_use_codes_again(ann)
    assert browser.send(wrong, "/ui/sign-in/code", code=_now(secret)).path == "/ui/account"
    assert browser.cookie()


def test_a_code_is_good_once_also_for_somebody_else_who_saw_it(people: SignIn) -> None:
    ann = people.user()
    secret, _ = people.with_second_factor(people.signed_in(ann))
    people.may_use_codes_again(ann)
    code = _now(secret)
    first, second = people.browser(), people.browser()
    pages = [browser.sign_in(ann, PASSWORD) for browser in (first, second)]
    assert first.send(pages[0], "/ui/sign-in/code", code=code).path == "/ui/"
    refused = second.send(pages[1], "/ui/sign-in/code", code=code)
    assert (refused.status, second.cookie()) == (401, None)


def test_a_recovery_code_stands_for_the_app_once(people: SignIn) -> None:
    ann = people.user()
    _, codes = people.with_second_factor(people.signed_in(ann))
    assert len(set(codes)) == 10
    browser = people.browser()
    arrived = browser.send(browser.sign_in(ann, PASSWORD), "/ui/sign-in/code", code=codes[3].upper().replace("-", " "))
    assert arrived.path == "/ui/"
    assert "9 recovery codes are left" in browser.get("/ui/account").text
    again = people.browser()
    assert again.send(again.sign_in(ann, PASSWORD), "/ui/sign-in/code", code=codes[3]).status == 401
    renewed = recovery_codes_on(browser.send(browser.get("/ui/account"), "/ui/account/recovery-codes"))
    assert len(set(renewed) - set(codes)) == 10
    assert again.send(again.sign_in(ann, PASSWORD), "/ui/sign-in/code", code=codes[4]).status == 401
    assert again.send(again.sign_in(ann, PASSWORD), "/ui/sign-in/code", code=renewed[0]).path == "/ui/"


def test_codes_are_tried_as_slowly_as_passwords(people: SignIn) -> None:
    """Whoever has the password does not count through a million codes, and not by getting new tickets either."""
    ann = people.user()
    people.with_second_factor(people.signed_in(ann))
    said = []
    for number in range(6):
        browser = people.browser()
        page = browser.sign_in(ann, PASSWORD)
        said.append(page.status)
        if page.status == 200:
            said.append(browser.send(page, "/ui/sign-in/code", code=f"{number:06}").status)
    assert said.count(401) == 5
    assert said[-1] == 429


def test_a_ticket_is_good_once_and_for_ten_minutes(people: SignIn) -> None:
    ann = people.user()
    _, codes = people.with_second_factor(people.signed_in(ann))
    browser = people.browser()
    body = {"name": ann, "password": PASSWORD}
    asked = browser.json("POST", "/v1/sign-in", body)
    assert (asked.status_code, asked.json()["next"]) == (202, "code")
    assert "set-cookie" not in asked.headers
    ticket = asked.json()["ticket"]
    assert browser.json("POST", "/v1/sign-in/code", {"ticket": ticket, "code": codes[0]}).status_code == 200
    for other in (ticket, "x", ""):
        refused = people.browser().json("POST", "/v1/sign-in/code", {"ticket": other, "code": codes[1]})
        assert problem(refused) == Said(401, "sign-in-over")
    late = people.browser().json("POST", "/v1/sign-in", body).json()["ticket"]
    people.acme.served.ask("update sign_in_steps set ends_at = now()")
    refused = people.browser().json("POST", "/v1/sign-in/code", {"ticket": late, "code": codes[1]})
    assert problem(refused) == Said(401, "sign-in-over")


def test_a_ticket_of_somebody_who_was_disabled_meanwhile_is_over(people: SignIn) -> None:
    ann = people.user()
    _, codes = people.with_second_factor(people.signed_in(ann))
    browser = people.browser()
    ticket = browser.json("POST", "/v1/sign-in", {"name": ann, "password": PASSWORD}).json()["ticket"]
    people.acme.send("PATCH", f"/v1/users/{ann}", {"disabled": True}, token=people.acme.admin)
    refused = browser.json("POST", "/v1/sign-in/code", {"ticket": ticket, "code": codes[0]})
    assert problem(refused) == Said(401, "sign-in-over")


def test_a_second_factor_counts_only_after_a_code_of_it_and_is_not_replaced_silently(people: SignIn) -> None:
    ann = people.user()
    browser = people.signed_in(ann)
    made = browser.json("POST", "/v1/second-factor")
    assert made.status_code == 201
    assert made.json()["address"].startswith("otpauth://totp/")
    assert people.signed_in(ann), "it does not count yet"
    wrong = browser.json("POST", "/v1/second-factor/confirm", {"code": "000000"})
    assert problem(wrong) == Said(422, "wrong-code", (("/code", "wrong-code"),))
    secret = made.json()["secret"]
    confirmed = browser.json("POST", "/v1/second-factor/confirm", {"code": _now(secret)})
    assert len(confirmed.json()["recovery_codes"]) == 10
    assert browser.json("GET", "/v1/second-factor").json() == {
        "enabled": True,
        "required": False,
        "recovery_codes_left": 10,
    }
    assert problem(browser.json("POST", "/v1/second-factor")) == Said(409, "second-factor-exists")
    assert browser.json("DELETE", "/v1/second-factor").status_code == 204
    assert problem(browser.json("DELETE", "/v1/second-factor")) == Said(404, "not-found")
    assert people.signed_in(ann)
    assert people.audited(ann, "second-factor.add") == people.audited(ann, "second-factor.remove") == [("done", "")]


def test_the_secret_of_one_user_opens_nothing_for_another(people: SignIn) -> None:
    """Whoever can write rows can't give a user the second factor of somebody else."""
    ann, mallory = people.user(), people.user()
    people.with_second_factor(people.signed_in(ann))
    secret, _ = people.with_second_factor(people.signed_in(mallory))
    people.acme.served.ask(
        """update second_factors as ours set key_id = theirs.key_id, wrapped_key = theirs.wrapped_key,
                ciphertext = theirs.ciphertext, last_step = 0
            from second_factors as theirs where ours.principal = (select id from principals where name = $1)
                and theirs.principal = (select id from principals where name = $2)""",
        ann,
        mallory,
    )
    browser = people.browser()
    page = browser.send(browser.sign_in(ann, PASSWORD), "/ui/sign-in/code", code=_now(secret))
    assert (page.status, browser.cookie()) == (503, None)


def test_an_administrator_removes_a_lost_second_factor(people: SignIn) -> None:
    ann = people.user()
    browser = people.signed_in(ann)
    people.with_second_factor(browser)
    gone = people.acme.send("DELETE", f"/v1/users/{ann}/second-factor", token=people.acme.admin)
    assert gone.status_code == 204
    assert browser.get("/ui/").path == "/ui/sign-in"
    assert people.signed_in(ann)


def test_a_new_master_key_wraps_second_factors_too(people: SignIn) -> None:
    ann = people.user()
    people.with_second_factor(people.signed_in(ann))
    [(key,)] = people.acme.served.ask("select distinct key_id from second_factors")
    people.acme.served.ask("update second_factors set key_id = 'another' where key_id = $1", key)
    failed = people.acme.send("POST", "/v1/master-keys/rotate", token=people.acme.admin).json()
    assert any(one["name"].startswith("second factor of") for one in failed["failed"])
    assert {
        name: value
        for name, value in next(use for use in failed["keys"] if use["id"] == "another").items()
        if name != "secrets"
    } == {"id": "another", "known": False}
    people.acme.served.ask("update second_factors set key_id = $1", key)


# ---- roles that ask for one ------------------------------------------------------------------------------------------


@pytest.fixture
def strict(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignIn]:
    """An installation of its own: rules are for all."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("strict"), time_scale=CALM) as running:
        running.add_server()
        yield SignIn(People.at(Served.on(running)))


def _rule(people: SignIn, *roles: str) -> None:
    body = {"second_factor_roles": list(roles)}
    assert people.acme.send("PUT", "/v1/sign-in/rules", body, token=people.acme.admin).json() == body


def test_whoever_must_have_a_second_factor_sets_one_up_before_anything_else_counts(strict: SignIn) -> None:
    boss, member = strict.user("admin"), strict.user("member")
    browser, members = strict.signed_in(boss), strict.signed_in(member)
    _rule(strict, "admin")
    assert browser.get("/ui/").path == "/ui/sign-in", "the session began without a second factor"
    assert members.get("/ui/").path == "/ui/", "nobody asks members for one"
    page = browser.sign_in(boss, PASSWORD)
    assert "Set up a second factor" in page.text
    assert browser.json("GET", "/v1/tasks").status_code == 401
    secret = secret_on(page)
    wrong = browser.send(page, "/ui/sign-in/code", code="000000")
    assert (wrong.status, secret_on(wrong)) == (401, secret)
    shown = browser.send(wrong, "/ui/sign-in/code", code=_now(secret))
    assert len(recovery_codes_on(shown)) == 10
    assert shown.links()[-1] == "/ui/"
    assert browser.json("GET", "/v1/tasks").status_code == 200
    assert problem(browser.json("DELETE", "/v1/second-factor")) == Said(409, "second-factor-required")
    assert "can't be removed" in browser.get("/ui/account").text
    strict.may_use_codes_again(boss)
    again = strict.browser()
    assert "Code of your app" in again.sign_in(boss, PASSWORD).text, "next time there is one"
    assert strict.user(), "invitations of others go on as before"


def test_the_api_leads_through_the_setup_too(strict: SignIn) -> None:
    _rule(strict, "member", "viewer")
    ann = strict.acme.add_user("viewer")
    browser = strict.browser()
    page = browser.send(
        browser.get(strict.invite(ann)), "/ui/invitation", password="kayak mumbles", repeated="kayak mumbles"
    )
    assert "Set up a second factor" in page.text, "eight characters are enough beside it"
    asked = browser.json("POST", "/v1/sign-in", {"name": ann, "password": "kayak mumbles"}).json()
    assert asked["next"] == "enrol"
    made = browser.json("POST", "/v1/sign-in/enrol", {"ticket": asked["ticket"]}).json()
    assert made["secret"] == secret_on(page)
    entered = browser.json("POST", "/v1/sign-in/code", {"ticket": asked["ticket"], "code": _now(made["secret"])})
    assert len(entered.json()["recovery_codes"]) == 10
    assert browser.json("GET", "/v1/whoami").json()["user"] == ann
    repeated = browser.json("POST", "/v1/sign-in", {"name": ann, "password": "kayak mumbles"}).json()
    refused = browser.json("POST", "/v1/sign-in/enrol", {"ticket": repeated["ticket"]})
    assert problem(refused) == Said(409, "second-factor-exists")


def test_rules_are_for_administrators_everywhere_and_name_roles(strict: SignIn) -> None:
    boss, root = strict.user("admin"), strict.user("admin", **EVERYWHERE)
    body = {"second_factor_roles": ["operator"]}
    refused = strict.signed_in(boss).json("PUT", "/v1/sign-in/rules", body)
    assert problem(refused) == Said(403, "missing-scope")
    browser = strict.signed_in(root)
    unknown = browser.json("PUT", "/v1/sign-in/rules", {"second_factor_roles": ["worker"]})
    assert problem(unknown) == Said(422, "out-of-range", (("/second_factor_roles", "out-of-range"),))
    assert browser.json("PUT", "/v1/sign-in/rules", body).status_code == 200
    assert strict.signed_in(boss).json("GET", "/v1/sign-in/rules").json() == body
    assert strict.audited(root, "sign-in-rules.set") == [("done", "")]


def test_a_node_without_a_master_key_says_so(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> None:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("keyless"), time_scale=CALM) as running:
        running.add_server(ROTA_SECRETS_KEY_FILE="")
        people = SignIn(People.at(Served.on(running)))
        browser = people.signed_in(people.user())
        assert problem(browser.json("POST", "/v1/second-factor")) == Said(503, "secrets-unavailable")
        assert "no master key" in browser.get("/ui/account/second-factor").text
        body = {"second_factor_roles": ["admin"]}
        refused = people.acme.send("PUT", "/v1/sign-in/rules", body, token=people.acme.admin)
        assert problem(refused) == Said(503, "secrets-unavailable"), "else nobody could sign in any more"
