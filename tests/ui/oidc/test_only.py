"""With `only`, passwords are for administrators everywhere with a second factor; and signing out ends it all."""

from __future__ import annotations

import httpx
import pytest
from argon2 import PasswordHasher

from tests.ui.oidc.browser import Browser, Site
from tests.ui.oidc.providers import Mock
from tests.ui.oidc.test_signing_in import somebody

PASSWORD = "correct horse battery staple"
HASH = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)


def post(browser: Browser, path: str, **form: str) -> httpx.Response:
    return browser.http.post(path, data=form, headers={"sec-fetch-site": "same-origin"})


def with_password(site: Site, name: str, *, second_factor: bool, **role: str) -> str:
    site.add_user(name, **role)
    site.ask("insert into passwords (principal, hash) select id, $2 from principals where name = $1", name, HASH)
    if second_factor:
        site.ask(
            "insert into second_factors (principal, key_id, wrapped_key, ciphertext, confirmed_at) "
            "select id, 'k', '', '', now() from principals where name = $1",
            name,
        )
    return name


@pytest.mark.parametrize(
    ("role", "second_factor", "allowed"),
    [
        ({"role": "admin"}, True, True),
        ({"role": "admin"}, False, False),
        ({"role": "admin", "tenant": "default"}, True, False),
        ({"role": "operator"}, True, False),
        ({"role": "member", "tenant": "default"}, False, False),
    ],
)
def test_a_password_is_for_an_administrator_everywhere_with_a_second_factor(
    site: Site, only: Site, role: dict[str, str], second_factor: bool, allowed: bool
) -> None:
    name = with_password(site, f"p-{'-'.join(role.values())}-{second_factor}", second_factor=second_factor, **role)
    before = site.last_entry()
    with only.browser() as browser:
        answered = post(browser, "/ui/sign-in", name=name, password=PASSWORD, next="/ui/")
        assert not browser.signed_in
        assert (answered.status_code == 200, 'name="code"' in answered.text) == (allowed, allowed), answered.text
    if not allowed:
        [(_, outcome, reason)] = site.audited("session.start", after=before)
        assert (outcome, reason) == ("failed", "single sign-on only")
    with site.browser() as browser:  # where passwords are allowed, this one is right
        assert post(browser, "/ui/sign-in", name=name, password=PASSWORD, next="/ui/").status_code in (200, 303)


def test_the_page_says_that_passwords_are_for_emergencies(site: Site, only: Site) -> None:
    with site.browser() as free, only.browser() as strict:
        assert "in an emergency" in strict.get("/ui/sign-in").text
        assert "in an emergency" not in free.get("/ui/sign-in").text


def test_an_invitation_makes_no_password_where_there_are_none(site: Site, only: Site, mock: Mock) -> None:
    name = site.add_user("invited-here", role="member", tenant="default")
    admin = site.add_user("admin-by-link", role="admin")
    for user, allowed in ((name, False), (admin, True)):
        link = only.send("POST", f"/v1/users/{user}/invitation").json()["link"]
        code = link.partition("code=")[2]
        with only.browser() as browser:
            form = {"code": code, "password": PASSWORD, "repeated": PASSWORD, "again": PASSWORD}
            answered = post(browser, "/ui/invitation", **form)
            assert (answered.status_code != 403) == allowed, answered.text


def test_signing_out_of_a_session_of_the_provider_leads_to_its_own_page(site: Site, mock: Mock) -> None:
    ann = somebody(mock, "ml")
    with site.browser() as browser:
        browser.sign_in(mock, ann)
        gone = post(browser, "/ui/sign-out")
        assert (gone.status_code, gone.headers["location"]) == (303, "/ui/oidc/signed-out")
        assert not browser.signed_in
    bob = with_password(site, "bob-signs-out", second_factor=False, role="member", tenant="default")
    with site.browser() as browser:
        post(browser, "/ui/sign-in", name=bob, password=PASSWORD, next="/ui/")
        assert post(browser, "/ui/sign-out").headers["location"] == "/ui/sign-in"


def test_who_signed_in_long_ago_proves_it_at_the_provider(site: Site, mock: Mock) -> None:
    carl = somebody(mock, "ml")
    with site.browser() as browser:
        browser.sign_in(mock, carl)
        shown = browser.get("/ui/prove?next=/ui/account").text
        assert 'href="/ui/oidc/start?again=1&amp;next=/ui/account"' in shown
        asked = browser.get("/ui/oidc/start?again=1&next=/ui/account").headers["location"]
    assert "prompt=login" in asked
    assert "max_age=0" in asked
