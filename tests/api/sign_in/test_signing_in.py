"""Signing in with a password: one text for all failures, a new secret each time, and nothing from other sites."""

from __future__ import annotations

import pytest

from tests.api.served import Said, problem
from tests.api.sign_in.people import PASSWORD, SignIn
from tests.ui.browser import Browser

WRONG = "another long password"


def test_the_right_password_begins_a_session_and_leads_to_where_one_was_going(people: SignIn) -> None:
    ann = people.user()
    browser = people.browser()
    asked = browser.get("/ui/account")
    assert asked.path == "/ui/sign-in"
    arrived = browser.send(asked, "/ui/sign-in", name=ann.upper(), password=PASSWORD)
    assert (arrived.status, arrived.path) == (200, "/ui/account")
    assert ann in arrived.text
    assert people.audited(ann, "session.start") == [("done", "by link"), ("done", "by password")]


def test_no_address_of_another_site_is_gone_to_after_signing_in(people: SignIn) -> None:
    ann = people.user()
    browser = people.browser()
    page = browser.get("/ui/sign-in?next=https://evil.example/")
    assert page.form("/ui/sign-in").values["next"] == "/ui/"
    answer = browser.http.post(
        "/ui/sign-in",
        data={"name": ann, "password": PASSWORD, "next": "//evil.example/"},
        headers={"sec-fetch-site": "same-origin"},
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/")


def test_all_failures_look_alike(people: SignIn) -> None:
    """A wrong password, an unknown user, one without a password, and one who is disabled."""
    known, disabled, without = people.user(), people.user(), people.acme.add_user("member")
    changed = people.acme.send("PATCH", f"/v1/users/{disabled}", {"disabled": True}, token=people.acme.admin)
    assert changed.status_code == 200
    said = []
    for name, password in ((known, WRONG), ("nobody-at-all", WRONG), (without, WRONG), (disabled, PASSWORD)):
        page = people.browser().sign_in(name, password)
        assert page.status == 401
        said.append(page.answer.text.replace(name, "NAME"))
    assert said == [said[0]] * 4
    answers = [
        people.browser().json("POST", "/v1/sign-in", {"name": name, "password": WRONG})
        for name in (known, "nobody-at-all")
    ]
    assert [problem(answer) for answer in answers] == [Said(401, "sign-in-failed")] * 2
    assert all("set-cookie" not in answer.headers for answer in answers)


@pytest.mark.parametrize("path", ["/ui/sign-in", "/ui/sign-in/code", "/ui/setup", "/ui/invitation", "/ui/sign-out"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_a_form_that_another_site_sends_is_refused(people: SignIn, path: str, site: str) -> None:
    """Also the form to sign in: nobody is to be signed in as somebody else without noticing."""
    page = people.browser().post(path, {"name": "ann", "password": PASSWORD}, **{"sec-fetch-site": site})
    assert page.status == 403
    assert "must come from a page of this server" in page.text


def test_an_old_browser_is_known_by_its_origin(people: SignIn) -> None:
    ann = people.user()
    browser = people.browser()
    values = {"name": ann, "password": PASSWORD}
    for origin in ("https://evil.example", "null"):
        assert browser.http.post("/ui/sign-in", data=values, headers={"origin": origin}).status_code == 403
    assert browser.http.post("/ui/sign-in", data=values).status_code == 403
    assert browser.http.post("/ui/sign-in", data=values, headers={"origin": people.url}).status_code == 303


def test_a_script_of_another_site_does_not_sign_in_by_the_api(people: SignIn) -> None:
    browser = people.browser()
    body = {"name": "ann", "password": PASSWORD}
    for route in ("/v1/sign-in", "/v1/sign-in/code", "/v1/sign-in/enrol"):
        refused = browser.json("POST", route, body, **{"sec-fetch-site": "cross-site"})
        assert problem(refused) == Said(403, "cross-site")


def test_a_session_that_somebody_laid_in_a_browser_is_not_the_one_that_begins(people: SignIn) -> None:
    """Session fixation: a secret that was known before signing in opens nothing afterwards."""
    mallory, ann = people.user(), people.user()
    laid = people.signed_in(mallory).cookie()
    assert laid is not None
    browser = people.browser()
    browser.http.cookies.set("rota", laid, domain="127.0.0.1", path="/")
    arrived = browser.sign_in(ann, PASSWORD)
    assert arrived.status == 200
    assert ann in arrived.text
    [fresh] = {cookie.value for cookie in browser.http.cookies.jar if cookie.name == "rota"} - {laid}
    assert fresh != laid
    stranger = people.browser(**{"cookie": f"rota={laid}"})
    assert stranger.get("/ui/").path == "/ui/sign-in", "and the laid session is over"


def test_an_invented_secret_begins_no_session(people: SignIn) -> None:
    browser = people.browser(**{"cookie": "rota=" + "x" * 43})
    assert browser.get("/ui/").path == "/ui/sign-in"


def test_the_cookie_of_a_session_is_out_of_reach_of_scripts_and_other_sites(people: SignIn) -> None:
    ann = people.user()
    signed_in = people.browser().json("POST", "/v1/sign-in", {"name": ann, "password": PASSWORD})
    assert signed_in.status_code == 200
    [cookie] = [one for one in signed_in.headers.get_list("set-cookie") if one.startswith("rota=")]
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/"} <= attributes
    assert len(cookie.split(";")[0].removeprefix("rota=")) == 43  # 256 bits
    [device] = [one for one in signed_in.headers.get_list("set-cookie") if one.startswith("rota-device=")]
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in device.split(";")[1:]}


def test_signing_out_ends_the_session_everywhere(people: SignIn) -> None:
    ann = people.user()
    browser = people.signed_in(ann)
    secret = browser.cookie()
    left = browser.send(browser.get("/ui/"), "/ui/sign-out")
    assert left.path == "/ui/sign-in"
    assert browser.cookie() is None
    assert people.browser(**{"cookie": f"rota={secret}"}).get("/ui/").path == "/ui/sign-in"
    assert people.audited(ann, "session.end") == [("done", "")]


def test_a_refusal_repeats_no_password(people: SignIn) -> None:
    browser = people.browser()
    for body in (
        b'{"name": "ann", "password": "canary-of-a-password',
        b'{"name": "ann", "password": ["canary-of-a-password"]}',
        b'{"name": "ann", "canary-of-a-password": "x"}',
        b'["canary-of-a-password"]',
    ):
        sent = {"sec-fetch-site": "same-origin", "content-type": "application/json"}
        refused = browser.http.post("/v1/sign-in", content=body, headers=sent)
        assert problem(refused).status in (400, 422)
        assert "canary-of-a" not in refused.text
    page = browser.sign_in("ann", "canary-of-a-password")
    assert "canary-of-a" not in page.answer.text


def test_no_password_code_or_secret_is_in_a_log_or_in_the_audit_log(people: SignIn) -> None:
    canary = "canary kayak mumbles quietly"
    name = people.acme.add_user("member")
    link = people.invite(name)
    browser = people.browser()
    browser.send(browser.get(link), "/ui/invitation", password=canary, repeated=canary)
    people.browser().sign_in(name, canary + "?")
    secret, codes = people.with_second_factor(browser)
    log = people.acme.served.cluster.servers[0].log()
    rows = str(people.acme.served.ask("select to_jsonb(audit_log)::text from audit_log"))
    stored = str(
        people.acme.served.ask(
            "select to_jsonb(passwords)::text from passwords union all select to_jsonb(second_factors)::text from second_factors "
            "union all select to_jsonb(sign_in_links)::text from sign_in_links"
        )
    )
    for hidden in (canary, link.partition("=")[2], secret, codes[0], str(browser.cookie())):
        assert hidden not in log
        assert hidden not in rows
        assert hidden not in stored


def test_a_body_that_is_no_form_is_refused_in_words(people: SignIn) -> None:
    browser = people.browser()
    own = {"sec-fetch-site": "same-origin"}
    many = "&".join(f"a{number}=1" for number in range(100))
    form = {**own, "content-type": "application/x-www-form-urlencoded"}
    assert browser.http.post("/ui/sign-in", content=many, headers=form).status_code == 400
    assert browser.http.post("/ui/sign-in", content=b"name=%ff%fe&password=x", headers=form).status_code == 400
    assert browser.http.post("/ui/sign-in", content=b"x" * 20_000, headers=form).status_code == 413
    assert browser.http.post("/ui/sign-in", json={}, headers=own).status_code == 415
    assert browser.http.post("/ui/sign-in", content=b"", headers=form).status_code == 401
    nul = browser.http.post("/ui/sign-in", content=b"name=a%00b&password=x%00y", headers=form)
    assert nul.status_code == 401


def test_two_browsers_of_one_user_have_two_sessions(people: SignIn) -> None:
    ann = people.user()
    one, two = people.signed_in(ann), people.signed_in(ann)
    assert one.cookie() != two.cookie()
    assert one.get("/ui/").path == two.get("/ui/").path == "/ui/"


def test_a_tenant_is_chosen_in_the_session_which_gets_a_new_secret(people: SignIn) -> None:
    ann = people.user()
    other = people.acme.at(people.acme.served)
    people.acme.give(ann, "viewer", tenant=other.tenant)
    browser = people.signed_in(ann)
    before = browser.cookie()
    start = browser.get("/ui/")
    assert people.acme.tenant in start.text
    looked = browser.send(start, "/ui/switch", tenant=other.tenant)
    assert f"You look at the tenant {other.tenant}" in looked.text
    assert browser.json("GET", "/v1/whoami").json()["tenant"] == other.tenant
    assert browser.cookie() != before
    assert _opens(people, before) is False
    for unknown in ("default", "none-such"):
        assert problem(browser.json("POST", "/v1/sessions/switch", {"tenant": unknown})) == Said(404, "not-found")
    assert browser.json("POST", "/v1/sessions/switch", {"tenant": people.acme.tenant}).status_code == 204
    assert browser.json("GET", "/v1/whoami").json()["tenant"] == people.acme.tenant


def test_whoever_gets_a_further_role_signs_in_anew(people: SignIn) -> None:
    ann = people.user("viewer")
    browser = people.signed_in(ann)
    people.acme.give(ann, "admin", tenant=people.acme.tenant)
    assert browser.get("/ui/").path == "/ui/sign-in"
    assert people.signed_in(ann).get("/ui/").path == "/ui/"


def _opens(people: SignIn, secret: str | None) -> bool:
    return Browser(people.url, **{"cookie": f"rota={secret}"}).get("/ui/").path == "/ui/"
