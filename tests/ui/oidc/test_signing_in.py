"""Sign-in through a real provider process: people come, get the roles of their groups, and lose them again."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from tests.ui.oidc.browser import Site
from tests.ui.oidc.providers import Mock

SECRET_COOKIE = "rota-oidc"


def somebody(mock: Mock, *groups: str, **claims: object) -> str:
    subject = f"s-{uuid4().hex[:10]}"
    usual = {"preferred_username": subject, "email": f"{subject}@example.org", "email_verified": True}
    return mock.person(subject, groups=list(groups), **{**usual, **claims})


def test_the_sign_in_page_has_a_button_with_the_name_of_the_provider(site: Site) -> None:
    with site.browser() as browser:
        shown = browser.get("/ui/sign-in?next=/ui/%3Fa=1%26b=2").text
    assert "Sign in with Example Corp" in shown
    assert 'href="/ui/oidc/start?next=/ui/%3Fa%3D1%26b%3D2"' in shown


def test_a_stranger_becomes_a_user_with_the_roles_of_its_groups(site: Site, mock: Mock) -> None:
    ann = somebody(mock, "ml", "gpu-ops", "unheard-of", "far")
    before = site.last_entry()
    with site.browser() as browser:
        answered = browser.get(mock.agree(browser.start("/ui/%3Fpage=2"), ann))
        assert answered.status_code == 303, answered.text
        assert answered.headers["location"] == "/ui/?page=2"
        assert browser.whoami()["user"] == ann
        assert SECRET_COOKIE not in browser.http.cookies
    assert site.roles(ann) == {("member", "default", "oidc"), ("operator", "default", "oidc")}
    user = site.send("GET", f"/v1/users/{ann}").json()
    assert (user["email"], user["created_by"]) == (f"{ann}@example.org", "oidc")
    assert {(name, role["granted_by"]) for role in user["roles"] for name in [role["role"]]} == {
        ("member", "group ml"),
        ("operator", "group gpu-ops"),
    }
    [(name, outcome, _)] = site.audited("user.add", after=before)
    assert (name, outcome) == (ann, "done")
    assert [entry[:2] for entry in site.audited("user.grant", after=before)] == [(ann, "done")] * 2
    [(_, outcome, via)] = site.audited("session.start", after=before)
    assert (outcome, via) == ("done", "by sign-in provider")


def test_the_request_to_the_provider_is_bound_to_this_sign_in(site: Site, mock: Mock) -> None:
    with site.browser() as browser:
        address = browser.start()
        cookie = next(one for one in browser.http.cookies.jar if one.name == SECRET_COOKIE)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert (asked["response_type"], asked["client_id"], asked["code_challenge_method"]) == ("code", "rota", "S256")
    assert asked["redirect_uri"] == f"{site.url}/ui/oidc/callback"
    assert set(asked["scope"].split()) == {"openid", "profile", "email"}
    assert len(asked["state"]) == len(asked["nonce"]) == 64
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "lax"
    kept = site.ask("select state_hash, nonce, next from oidc_sign_ins where nonce = $1", asked["nonce"])
    assert len(kept) == 1
    assert asked["state"].encode() not in kept[0][0]


def test_a_group_that_is_gone_takes_its_role_along_and_leaves_local_ones(site: Site, mock: Mock) -> None:
    bob = somebody(mock, "ml", "gpu-ops")
    with site.browser() as browser:
        browser.sign_in(mock, bob)
        site.send("POST", f"/v1/users/{bob}/bindings", {"role": "viewer", "tenant": "default"})
        before = site.last_entry()
        mock.person(bob, groups=["gpu-ops"])
        assert browser.sign_in(mock, bob).status_code == 303
    assert site.roles(bob) == {("viewer", "default", "local"), ("operator", "default", "oidc")}
    assert [entry[:2] for entry in site.audited("user.revoke", after=before)] == [(bob, "done")]


def test_whoever_has_no_role_left_is_refused_and_its_role_is_gone_all_the_same(site: Site, mock: Mock) -> None:
    carl = somebody(mock, "ml")
    with site.browser() as browser:
        browser.sign_in(mock, carl)
    mock.person(carl, groups=["sales"])
    with site.browser() as browser:
        refused = browser.sign_in(mock, carl)
        assert refused.status_code == 403
        assert "your groups are: sales" in refused.text
        assert not browser.signed_in
    assert site.roles(carl) == set()


def test_a_stranger_without_a_role_leaves_no_account_behind(site: Site, mock: Mock) -> None:
    dan = somebody(mock, "sales")
    before = site.last_entry()
    with site.browser() as browser:
        assert browser.sign_in(mock, dan).status_code == 403
    assert site.send("GET", f"/v1/users/{dan}").status_code == 404
    [(_, outcome, reason)] = site.audited("session.start", after=before)
    assert (outcome, reason.startswith("oidc: no-role: ")) == ("denied", True)


def test_somebody_is_an_issuer_and_a_subject_whatever_their_mail_address(site: Site, mock: Mock) -> None:
    eve = somebody(mock, "ml")
    with site.browser() as browser:
        browser.sign_in(mock, eve)
        mock.person(eve, groups=["ml"], email="another@example.org", email_verified=True, preferred_username="another")
        browser.sign_in(mock, eve)
        assert browser.whoami()["user"] == eve
    assert site.send("GET", "/v1/users/another").status_code == 404


# ---- accounts that somebody prepared -----------------------------------------------------------------------------------


def test_only_people_whom_somebody_added_come_in_if_the_settings_say_so(site: Site, invited: Site, mock: Mock) -> None:
    fay, gus = somebody(mock, "ml"), somebody(mock, "ml")
    invited.add_user("fay-here", email=f"{fay}@example.org", role="viewer", tenant="default")
    before = site.last_entry()
    with invited.browser() as browser:
        assert browser.sign_in(mock, fay).status_code == 303
        assert browser.whoami()["user"] == "fay-here"
    with invited.browser() as browser:
        refused = browser.sign_in(mock, gus)
        assert (refused.status_code, "nobody added you here" in refused.text) == (403, True)
        assert not browser.signed_in
    assert invited.roles("fay-here") == {("viewer", "default", "local"), ("member", "default", "oidc")}
    reasons = [entry[1:] for entry in site.audited("session.start", after=before)]
    assert [(outcome, reason[:19]) for outcome, reason in reasons] == [
        ("done", "by sign-in provider"),
        ("denied", "oidc: not-invited: "),
    ]
    assert site.audited("user.link", after=before)[0][0] == "fay-here"


def test_a_user_may_be_prepared_by_a_name_that_is_the_mail_address(invited: Site, mock: Mock) -> None:
    gil = somebody(mock, "ml")
    name = invited.add_user(f"{gil}@example.org".upper(), role="viewer", tenant="default")
    with invited.browser() as browser:
        assert browser.sign_in(mock, gil).status_code == 303
        assert browser.whoami()["user"] == name


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_a_mail_address_that_the_provider_did_not_verify_opens_no_account(
    site: Site, mock: Mock, verified: object
) -> None:
    hal = somebody(mock, "ml", email_verified=verified)
    prepared = site.add_user(f"owner-of-{hal}", email=f"{hal}@example.org", role="admin")
    with site.browser() as browser:
        browser.sign_in(mock, hal)
        assert browser.whoami()["user"] == hal  # a new user, without the address
    assert site.send("GET", f"/v1/users/{hal}").json()["email"] is None
    assert site.roles(prepared) == {("admin", None, "local")}


def test_a_user_with_a_password_is_not_taken_over_by_its_mail_address(site: Site, mock: Mock) -> None:
    ian = somebody(mock, "ml")
    owner = site.add_user(f"owner-of-{ian}", email=f"{ian}@example.org", role="admin")
    site.ask("insert into passwords (principal, hash) select id, 'x' from principals where name = $1", owner)
    with site.browser() as browser:
        refused = browser.sign_in(mock, ian)
        assert (refused.status_code, "signs in by password" in refused.text) == (403, True)
        assert not browser.signed_in


def test_a_user_of_one_identity_is_not_taken_over_by_another(site: Site, mock: Mock) -> None:
    first, second = somebody(mock, "ml"), somebody(mock, "ml")
    with site.browser() as browser:
        browser.sign_in(mock, first)
    mock.person(second, groups=["ml"], email=f"{first}@example.org", email_verified=True)
    with site.browser() as browser:
        assert browser.sign_in(mock, second).status_code == 403
        assert not browser.signed_in


def test_a_disabled_user_is_refused(site: Site, mock: Mock) -> None:
    jan = somebody(mock, "ml")
    with site.browser() as browser:
        browser.sign_in(mock, jan)
    site.send("PATCH", f"/v1/users/{jan}", {"disabled": True})
    with site.browser() as browser:
        refused = browser.sign_in(mock, jan)
        assert (refused.status_code, "is disabled" in refused.text) == (403, True)
        assert not browser.signed_in


def test_a_name_that_somebody_has_already_is_not_shared(site: Site, mock: Mock) -> None:
    taken = site.add_user(f"kim-{uuid4().hex[:6]}")
    kim = somebody(mock, "ml", preferred_username=taken)
    with site.browser() as browser:
        browser.sign_in(mock, kim)
        assert browser.whoami()["user"] == f"{taken}-2"


def test_a_name_can_not_look_like_somebodys_mail_address(site: Site, mock: Mock) -> None:
    lee = somebody(mock, "ml", preferred_username=f"boss-{uuid4().hex[:6]}@example.org")
    with site.browser() as browser:
        browser.sign_in(mock, lee)
        assert "@" not in browser.whoami()["user"]


# ---- the way back -----------------------------------------------------------------------------------------------------


def test_a_callback_counts_once(site: Site, mock: Mock) -> None:
    mia = somebody(mock, "ml")
    before = site.last_entry()
    with site.browser() as browser:
        back = mock.agree(browser.start(), mia)
        browser.start()  # so that the browser has its cookie whatever the first callback does to it
        assert browser.get(back).status_code == 303
        browser.start()
        again = browser.get(back)
    assert (again.status_code, "this sign-in is over" in again.text) == (403, True)
    assert [reason.split(":")[1].strip() for _, _, reason in site.audited("session.start", after=before)[1:]] == [
        "used-or-old"
    ]


def test_a_code_counts_once(site: Site, mock: Mock) -> None:
    """Another sign-in of the same browser does not get further with the code of the first."""
    nic = somebody(mock, "ml")
    before = site.last_entry()
    with site.browser() as browser:
        first = mock.agree(browser.start(), nic)
        code = parse_qs(urlsplit(first).query)["code"][0]
        state = parse_qs(urlsplit(browser.start()).query)["state"][0]
        assert browser.get(first).status_code == 303
        browser.http.cookies.delete("rota")
        browser.start()
        state = parse_qs(urlsplit(browser.start()).query)["state"][0]
        reused = browser.get(f"/ui/oidc/callback?code={code}&state={state}")
        assert (reused.status_code, "does not take the code" in reused.text) == (403, True)
        assert not browser.signed_in
    assert site.audited("session.start", after=before)[-1][1:][0] == "denied"


def test_a_callback_does_nothing_in_another_browser_and_still_works_in_its_own(site: Site, mock: Mock) -> None:
    oli = somebody(mock, "ml")
    before = site.last_entry()
    with site.browser() as own, site.browser() as other, site.browser() as third:
        back = mock.agree(own.start(), oli)
        stolen = other.get(back)
        assert (stolen.status_code, "another browser" in stolen.text) == (403, True)
        third.start()
        assert third.get(back).status_code == 403  # one with a cookie of its own
        assert not other.signed_in
        assert not third.signed_in
        assert own.get(back).status_code == 303
    codes = [
        reason.split(": ")[1] for _, outcome, reason in site.audited("session.start", after=before) if outcome != "done"
    ]
    assert codes == ["other-browser", "used-or-old"]


def test_a_sign_in_that_took_too_long_is_over(site: Site, mock: Mock) -> None:
    pam = somebody(mock, "ml")
    with site.browser() as browser:
        back = mock.agree(browser.start(), pam)
        site.ask("update oidc_sign_ins set began_at = now() - interval '11 minutes'")
        assert browser.get(back).status_code == 403
        assert not browser.signed_in


def test_two_tabs_of_one_browser_both_get_there(site: Site, mock: Mock) -> None:
    quin = somebody(mock, "ml")
    with site.browser() as browser:
        first, second = mock.agree(browser.start("/ui/%3Ftab=1"), quin), mock.agree(browser.start("/ui/%3Ftab=2"), quin)
        cookie = browser.http.cookies[SECRET_COOKIE]
        assert browser.get(first).headers["location"] == "/ui/?tab=1"
        browser.put_cookie(SECRET_COOKIE, cookie)
        assert browser.get(second).headers["location"] == "/ui/?tab=2"


def test_a_sign_in_ends_the_session_before_and_begins_a_new_one(site: Site, mock: Mock) -> None:
    ray = somebody(mock, "ml")
    with site.browser() as browser:
        browser.put_cookie("rota", "laid-here-by-somebody-else")
        browser.sign_in(mock, ray)
        first = browser.http.cookies["rota"]
        assert first != "laid-here-by-somebody-else"
        browser.sign_in(mock, ray)
        assert browser.http.cookies["rota"] != first
        browser.put_cookie("rota", first)
        assert not browser.signed_in


def test_a_sign_in_begins_at_one_server_node_and_ends_at_another(site: Site, mock: Mock) -> None:
    sue = somebody(mock, "ml")
    with site.browser(0) as browser:
        back = mock.agree(browser.start(), sue)
        elsewhere = site.cluster.urls[1] + "/ui/oidc/callback?" + urlsplit(back).query
        assert browser.get(elsewhere).status_code == 303
        assert browser.whoami()["user"] == sue


def test_whom_the_provider_refuses_reads_why(site: Site, mock: Mock) -> None:
    before = site.last_entry()
    with site.browser() as browser:
        state = parse_qs(urlsplit(browser.start()).query)["state"][0]
        refused = browser.get(f"/ui/oidc/callback?error=access_denied&error_description=<script>&state={state}")
    assert (refused.status_code, "access denied" in refused.text, "<script" in refused.text) == (403, True, False)
    assert site.audited("session.start", after=before)[0][1] == "denied"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?code=x",
        "?state=",
        "?state=short&code=x",
        "?state=" + "a" * 64,
        "?state=" + "a" * 64 + "&state=" + "b" * 64 + "&code=x",
        "?state=" + "%00" * 64 + "&code=x",
        "?state=" + "ä" * 64 + "&code=x",
        "?code=" + "x" * 9000,
    ],
)
def test_an_address_that_is_no_end_of_a_sign_in_is_a_page_and_not_an_error(site: Site, query: str) -> None:
    with site.browser() as browser:
        browser.start()
        refused = browser.get("/ui/oidc/callback" + query)
    assert refused.status_code == 403
    assert "Not signed in" in refused.text


def test_a_sign_in_never_leads_to_another_site(site: Site, mock: Mock) -> None:
    tom = somebody(mock, "ml")
    with site.browser() as browser:
        answered = browser.get(mock.agree(browser.start("//evil.example.org/"), tom))
    assert answered.headers["location"] == "/ui/"


def test_signing_out_leads_to_the_providers_own_page_for_that(site: Site, invited: Site) -> None:
    with site.browser() as browser, invited.browser() as other:
        shown = browser.get("/ui/oidc/signed-out").text
        assert f'href="{site.issuer}/oauth2/end_session?client_id=rota&amp;post_logout_redirect_uri=' in shown
        assert "end_session" not in other.get("/ui/oidc/signed-out").text  # logout = false


def test_a_server_without_a_provider_has_none_of_its_pages(served) -> None:  # type: ignore[no-untyped-def]
    for path in ("start", "callback", "signed-out"):
        assert served.send("GET", f"/ui/oidc/{path}", token=None).status_code == 404
    assert "/ui/oidc" not in served.send("GET", "/ui/sign-in", token=None).text
