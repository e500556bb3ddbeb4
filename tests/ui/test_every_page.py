"""Every page: who may see it, what its forms are like for people and for programs that fill them in, and no scripts."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from fastapi.routing import APIRoute

from rota.api.permissions import PAGE_RULES
from rota.ui.routers import PAGES
from tests.api.accounts.people import People
from tests.api.served import Served
from tests.api.sign_in.people import PASSWORD, SignIn
from tests.ui.browser import Browser, Page

ROUTES = [
    (method, route.path, route.endpoint.__name__)
    for router in PAGES
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]
# What `rota login` asks for, rightly, so that the page gets to the question who the user is.
LOGIN = urlencode(
    {
        "machine": "laptop",
        "redirect_uri": "http://127.0.0.1:50000/",
        "state": "s" * 20,
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
        "decision": "allow",
    }
)
AUTOCOMPLETE = {
    "name": "username",
    "old": "current-password",
    "new": "new-password",
    "repeated": "new-password",
    "code": "one-time-code",
}


@pytest.fixture
def people(served: Served) -> SignIn:
    return SignIn(People.at(served))


@pytest.mark.parametrize(("method", "path", "name"), ROUTES)
def test_a_page_for_users_leads_everybody_else_to_signing_in(served: Served, method: str, path: str, name: str) -> None:
    headers = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
    where = path.replace("{name}", "style.css") + (f"?{LOGIN}" if name == "show_login" else "")
    answer = served.send(method, where, LOGIN.encode(), token=None, headers=headers)
    led = answer.status_code == 303 and answer.headers["location"].startswith("/ui/sign-in")
    assert led == (name in PAGE_RULES)
    assert answer.status_code < 500


@pytest.mark.parametrize(("method", "path", "name"), [route for route in ROUTES if route[0] == "POST"])
def test_no_form_is_taken_from_another_site_also_with_a_session(
    served: Served, acme: People, method: str, path: str, name: str
) -> None:
    session = acme.session_of(acme.add_user("member"))
    for site in ("cross-site", "same-site"):
        headers = {**session, "sec-fetch-site": site, "content-type": "application/x-www-form-urlencoded"}
        assert served.send(method, path, b"", token=None, headers=headers).status_code == 403


def _pages(people: SignIn) -> dict[str, Page]:
    """Each page with a form, as a browser shows it."""
    stranger = people.browser()
    invited = stranger.get(people.invite(people.acme.add_user("member")))
    ann = people.user()
    browser = people.signed_in(ann)
    pages = {
        "sign in": stranger.get("/ui/sign-in"),
        "failed": stranger.sign_in(ann, "wrong"),
        "invitation": invited,
        "start": browser.get("/ui/"),
        "account": browser.get("/ui/account"),
        "prove": browser.get("/ui/prove"),
        "enrol": browser.get("/ui/account/second-factor"),
    }
    people.with_second_factor(browser)
    pages["second factor"] = people.browser().sign_in(ann, PASSWORD)
    pages["account with a second factor"] = browser.get("/ui/account")
    pages["not there"] = stranger.get("/ui/invitation?code=x")
    return pages


def test_pages_are_for_people_and_password_managers(people: SignIn) -> None:
    """Every field has a label and says what it is for; nothing depends on a script or an inline style."""
    for name, page in _pages(people).items():
        assert page.status in (200, 401, 404), name
        tags = [tag for tag, _ in page.tags]
        assert tags.count("h1") == 1, name
        assert "script" not in tags, name
        assert "style" not in tags, name
        assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags, name
        assert dict(page.tags)["html"] == {"lang": "en"}, name
        for _, given in page.tags:
            assert not {"style", "onclick", "onload", "onsubmit"} & given.keys(), name
            assert set(given.get("aria-describedby", "").split()) <= page.ids, name
        for form in page.forms:
            assert form.method == "post", name
            for field, given in form.inputs.items():
                if given.get("type") == "hidden":
                    continue
                assert given["id"] in page.labels, (name, field)
                if field in AUTOCOMPLETE:
                    assert given["autocomplete"] == AUTOCOMPLETE[field], (name, field)
        ids = [given["id"] for _, given in page.tags if "id" in given]
        assert len(ids) == len(set(ids)), name


def test_a_failed_form_keeps_the_name_and_not_the_password(people: SignIn) -> None:
    page = people.browser().sign_in("ann", "a wrong long password")
    form = page.form("/ui/sign-in")
    assert (form.values["name"], form.values["password"]) == ("ann", "")
    assert ("p", {"class": "error", "role": "alert"}) in page.tags


def test_what_somebody_typed_is_text_and_never_markup(people: SignIn) -> None:
    evil = '"><script>alert(1)</script>'
    browser = people.browser()
    assert "<script" not in browser.sign_in(evil, "x").answer.text
    assert "<script" not in browser.get(f"/ui/sign-in?next=/ui/{evil}").answer.text
    assert "<script" not in browser.get(f"/ui/setup?code={evil}").answer.text


def test_a_program_with_another_name_for_itself_is_shown_as_text(people: SignIn) -> None:
    ann = people.user()
    other = Browser(people.url, agent="<script>alert(1)</script>")
    other.sign_in(ann, PASSWORD)
    shown = people.signed_in(ann).get("/ui/account")
    assert "<script" not in shown.answer.text
    assert "<script>alert(1)</script>" in shown.text


def test_the_account_page_ends_sessions(people: SignIn) -> None:
    ann = people.user()
    one, two, three = people.signed_in(ann), people.signed_in(ann), people.signed_in(ann)
    page = one.get("/ui/account")
    ended = one.send(page, "/ui/account/sessions/end")  # the first one listed that is not this one
    assert "The session is ended" in ended.text
    assert [browser.get("/ui/").path for browser in (two, three)].count("/ui/sign-in") == 1
    left = one.send(one.get("/ui/account"), "/ui/account/sessions/end-others")
    assert "All other sessions are ended" in left.text
    assert [browser.get("/ui/").path for browser in (one, two, three)] == ["/ui/", "/ui/sign-in", "/ui/sign-in"]
