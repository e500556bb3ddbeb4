"""Links sign somebody in once: invitations, forgotten passwords, and the first administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rota.admit.setup_link import make_setup_code
from tests.api.accounts.people import EVERYWHERE, People
from tests.api.served import Said, Served, problem
from tests.api.sign_in.people import PASSWORD, SignIn
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres
from tests.ui.browser import Page

NEW = "twelve quiet ferries sail"


def _accept(people: SignIn, link: str, password: str = PASSWORD, repeated: str | None = None) -> Page:
    browser = people.browser()
    page = browser.get(link)
    return browser.send(page, "/ui/invitation", password=password, repeated=repeated or password)


def test_an_invitation_sets_the_first_password_and_counts_once(people: SignIn) -> None:
    ann = people.acme.add_user("member")
    link = people.invite(ann)
    shown = people.browser().get(link)
    assert f"Welcome, {ann}" in shown.text
    assert shown.form("/ui/invitation").inputs["name"]["autocomplete"] == "username"
    assert people.browser().get(link).status == 200, "to look at it uses nothing up"
    assert _accept(people, link).path == "/ui/"
    over = people.browser().get(link)
    assert (over.status, "This link is over" in over.text) == (404, True)
    assert (
        people.browser()
        .post("/ui/invitation", {"code": link.partition("=")[2], "password": NEW, "repeated": NEW})
        .status
        == 404
    )
    assert people.signed_in(ann)


def test_a_link_is_used_by_one_of_two_who_open_it_at_once(people: SignIn) -> None:
    ann = people.acme.add_user("member")
    link = people.invite(ann)
    with ThreadPoolExecutor(2) as both:
        arrived = list(both.map(lambda password: _accept(people, link, password), (PASSWORD, NEW)))
    assert sorted(page.status for page in arrived) == [200, 404]
    [winner] = [number for number, page in enumerate(arrived) if page.status == 200]
    assert people.signed_in(ann, password=(PASSWORD, NEW)[winner])


def test_a_new_invitation_ends_the_older_one_and_stands_for_a_forgotten_password(people: SignIn) -> None:
    ann = people.user()
    browser = people.signed_in(ann)
    older, newer = people.invite(ann), people.invite(ann)
    assert people.browser().get(older).status == 404
    assert f"A new password for {ann}" in people.browser().get(newer).text
    assert _accept(people, newer, NEW).path == "/ui/"
    assert browser.get("/ui/").path == "/ui/sign-in", "the old password's sessions are over"
    assert people.browser().sign_in(ann, PASSWORD).status == 401
    assert people.signed_in(ann, password=NEW)


def test_a_link_is_over_in_time_and_with_its_user(people: SignIn) -> None:
    late, disabled, gone = (people.acme.add_user("member") for _ in range(3))
    links = [people.invite(name) for name in (late, disabled, gone)]
    ask = people.acme.served.ask
    ask("update sign_in_links set ends_at = now() where principal = (select id from principals where name = $1)", late)
    people.acme.send("PATCH", f"/v1/users/{disabled}", {"disabled": True}, token=people.acme.admin)
    people.acme.send("DELETE", f"/v1/users/{gone}", token=people.acme.admin)
    assert [people.browser().get(link).status for link in links] == [404] * 3
    assert people.browser().get("/ui/invitation").status == 404
    assert people.browser().get("/ui/invitation?code=x").status == 404
    assert people.browser().get("/ui/setup?code=x").status == 404


def test_what_is_wrong_with_the_password_is_said_and_the_link_still_counts(people: SignIn) -> None:
    ann = people.acme.add_user("member")
    link = people.invite(ann)
    assert "at least 15 characters" in _accept(people, link, "too short").text
    assert "easy to guess" in _accept(people, link, f"{ann}{ann}").text
    assert "not the same" in _accept(people, link, PASSWORD, NEW).text
    assert _accept(people, link).path == "/ui/"


def test_only_those_who_may_act_for_a_user_invite_it(people: SignIn) -> None:
    """Else a link would be a way to become somebody with more rights."""
    boss, root, member = people.user("admin"), people.user("admin", **EVERYWHERE), people.user("member")
    elsewhere = SignIn(People.at(people.acme.served)).user()
    people.acme.give(root, "viewer", tenant=people.acme.tenant)
    browser = people.signed_in(boss)
    assert problem(browser.json("POST", f"/v1/users/{root}/invitation")) == Said(403, "beyond-your-rights")
    assert problem(browser.json("POST", f"/v1/users/{elsewhere}/invitation")) == Said(404, "not-found")
    assert problem(browser.json("DELETE", f"/v1/users/{root}/second-factor")) == Said(403, "beyond-your-rights")
    assert browser.json("POST", f"/v1/users/{member}/invitation").status_code == 201
    plain = people.signed_in(member)
    assert problem(plain.json("POST", f"/v1/users/{boss}/invitation")) == Said(403, "missing-scope")
    narrow = people.acme.token_of(boss)
    assert problem(people.acme.send("POST", f"/v1/users/{member}/invitation", token=narrow)).slug == "missing-scope"


def test_an_invitation_does_not_get_around_the_second_factor(people: SignIn) -> None:
    ann = people.user()
    browser = people.signed_in(ann)
    people.with_second_factor(browser)
    page = _accept(people, people.invite(ann), NEW)
    assert "Second factor" in page.text
    assert page.path == "/ui/invitation"


# ---- the first administrator -----------------------------------------------------------------------------------------


@pytest.fixture
def fresh(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignIn]:
    """An installation where nobody can sign in yet."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("fresh"), time_scale=CALM) as running:
        running.add_server()
        yield SignIn(People.at(Served.on(running)))


def _setup_code(people: SignIn) -> str | None:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(make_setup_code(people.acme.served.cluster.database))).result()


def test_the_first_administrator_is_made_by_a_link_and_no_second_one(fresh: SignIn) -> None:
    older, code = _setup_code(fresh), _setup_code(fresh)
    assert code is not None
    browser = fresh.browser()
    assert browser.get(f"/ui/setup?code={older}").status == 404, "a new link ends the one before"
    page = browser.get(f"/ui/setup?code={code}")
    taken = fresh.acme.add_user("member")
    for name, password, why in (
        ("root", "too short", "at least 15"),
        ("a b", PASSWORD, "is not a name"),
        (taken, PASSWORD, "is taken"),
        ("rootrootrootrootroot", "rootrootrootrootroot", "easy to guess"),
    ):
        shown = browser.send(page, "/ui/setup", name=name, password=password, repeated=password)
        assert why in shown.text
    arrived = browser.send(page, "/ui/setup", name="root", password=PASSWORD, repeated=PASSWORD)
    assert (arrived.path, "admin everywhere" in arrived.text) == ("/ui/", True)
    assert browser.json("POST", "/v1/tenants", {"name": "made-by-root", "plan": "unlimited"}).status_code == 201
    assert browser.get(f"/ui/setup?code={code}").status == 404
    assert _setup_code(fresh) is None, "from now on there is one who can sign in"


def test_a_setup_link_that_was_not_used_is_over_as_soon_as_there_is_an_administrator(fresh: SignIn) -> None:
    code = _setup_code(fresh)
    fresh.user("admin", **EVERYWHERE)
    assert fresh.browser().get(f"/ui/setup?code={code}").status == 404
    values = {"code": str(code), "name": "mallory", "password": NEW, "repeated": NEW}
    assert fresh.browser().post("/ui/setup", values).status == 404


def test_a_setup_link_is_no_invitation_and_the_other_way_round(fresh: SignIn) -> None:
    code = _setup_code(fresh)
    invitation = fresh.invite(fresh.acme.add_user("member")).partition("=")[2]
    assert fresh.browser().get(f"/ui/invitation?code={code}").status == 404
    assert fresh.browser().get(f"/ui/setup?code={invitation}").status == 404
    for path, given in (("/ui/setup", invitation), ("/ui/invitation", str(code))):
        values = {"code": given, "name": "mallory", "password": NEW, "repeated": NEW}
        assert fresh.browser().post(path, values).status == 404
