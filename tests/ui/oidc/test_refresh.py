"""While somebody is signed in, the provider is asked again: roles follow groups, and sessions end with its word."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import asyncpg

from rota.admit.oidc.provider import Tokens
from rota.admit.oidc.refresh import EVERY, LEAST_EVERY, next_refresh
from rota.store.oidc import claim_refreshes
from tests.faults.scene import eventually
from tests.ui.oidc.browser import Browser, Site
from tests.ui.oidc.providers import Hostile, Mock
from tests.ui.oidc.test_signing_in import somebody

SECONDS = 60.0


def due(site: Site, name: str) -> None:
    """As if an hour had passed."""
    changed = site.ask(
        "update oidc_identities set refresh_at = now() from principals "
        "where principals.id = principal and name = $1 and refresh_at is not null returning 1",
        name,
    )
    assert len(changed) == 1


def test_a_group_that_is_gone_takes_its_role_from_whoever_is_signed_in(site: Site, mock: Mock) -> None:
    ann = somebody(mock, "ml", "gpu-ops")
    with site.browser() as browser:
        browser.sign_in(mock, ann)
        before = site.last_entry()
        mock.person(ann, groups=["gpu-ops"])
        due(site, ann)
        eventually(
            lambda: site.roles(ann) == {("operator", "default", "oidc")}, seconds=SECONDS, what="the role is gone"
        )
        assert browser.signed_in
    [(name, outcome, _)] = site.audited("user.revoke", after=before)
    assert (name, outcome) == (ann, "done")


def test_a_new_group_gives_its_role_to_whoever_is_signed_in(site: Site, mock: Mock) -> None:
    bob = somebody(mock, "ml")
    with site.browser() as browser:
        browser.sign_in(mock, bob)
        mock.person(bob, groups=["ml", "rota-admins"])
        due(site, bob)
        eventually(lambda: ("admin", None, "oidc") in site.roles(bob), seconds=SECONDS, what="the role is there")


def test_a_provider_that_refuses_ends_the_sessions_that_it_began_and_no_others(site: Site, mock: Mock) -> None:
    carl = somebody(mock, "ml")
    with site.browser() as first, site.browser(1) as second:
        first.sign_in(mock, carl)
        second.sign_in(mock, carl)
        site.ask(
            "insert into sessions (hash, principal, tenant, via, ends_at) select $2, id, 1, 'password', "
            "now() + interval '1 hour' from principals where name = $1",
            carl,
            uuid4().bytes,
        )
        before = site.last_entry()
        mock.revoke(carl)
        due(site, carl)
        eventually(lambda: not first.signed_in and not second.signed_in, seconds=SECONDS, what="both sessions ended")
    entries = site.audited("session.end", after=before)
    assert [(outcome, "refused to refresh it: grant-ended" in reason) for _, outcome, reason in entries] == [
        ("done", True)
    ] * 2
    assert site.ask(
        "select count(*) from sessions join principals on principals.id = principal "
        "where name = $1 and ended_at is null",
        carl,
    ) == [(1,)]
    assert site.roles(carl) == {("member", "default", "oidc")}  # it did not say that the groups are gone


def test_a_provider_that_is_away_ends_nothing_for_now(hostile_site: Site, hostile: Hostile) -> None:
    hostile.refresh_token = "secret-refresh-token"
    dan = f"s-{uuid4().hex[:10]}"
    with hostile_site.browser() as browser:
        browser.sign_in(hostile, dan)
        name = browser.whoami()["user"]
        hostile.token_answer = lambda *_: (503, {})
        asked = len(hostile.forms)
        due(hostile_site, name)
        eventually(lambda: len(hostile.forms) > asked, seconds=SECONDS, what="the provider was asked")
        eventually(
            lambda: (
                hostile_site.ask(
                    "select refresh_at > now() + interval '4 minutes' from oidc_identities "
                    "join principals on principals.id = principal where name = $1",
                    name,
                )
                == [(True,)]
            ),
            seconds=SECONDS,
            what="it is asked again later",
        )
        assert hostile.forms[-1]["refresh_token"] == "secret-refresh-token"
        assert browser.signed_in


def test_a_refresh_that_tells_of_somebody_else_ends_the_sessions(hostile_site: Site, hostile: Hostile) -> None:
    hostile.refresh_token = "another-token"
    eve = f"s-{uuid4().hex[:10]}"
    with hostile_site.browser() as browser:
        browser.sign_in(hostile, eve)
        name = browser.whoami()["user"]
        other = hostile.signed(hostile.honest_claims(sub="somebody-else", groups=["rota-admins"]))
        hostile.token_answer = lambda *_: (200, {"access_token": "a", "token_type": "bearer", "id_token": other})
        due(hostile_site, name)
        eventually(lambda: not browser.signed_in, seconds=SECONDS, what="the session ended")
    assert hostile_site.roles(name) == {("member", "default", "oidc")}


def test_a_refresh_token_is_stored_sealed(hostile_site: Site, hostile: Hostile) -> None:
    hostile.refresh_token = f"refresh-{uuid4().hex}"
    with hostile_site.browser() as browser:
        browser.sign_in(hostile, f"s-{uuid4().hex[:10]}")
    rows = hostile_site.ask("select sealed_token from oidc_identities where sealed_token is not null")
    assert rows
    assert all(hostile.refresh_token.encode() not in row[0] for row in rows)


def test_nobody_is_heard_of_for_too_long(site: Site, mock: Mock) -> None:
    fay = somebody(mock, "ml")
    with site.browser() as browser:
        browser.sign_in(mock, fay)
        before = site.last_entry()
        _unheard(site, fay, "13 hours")
        eventually(lambda: not browser.signed_in, seconds=SECONDS, what="the session ended")
        assert site.roles(fay) == {("member", "default", "oidc")}
        _unheard(site, fay, "31 days")
        eventually(lambda: site.roles(fay) == set(), seconds=SECONDS, what="the roles of the provider are gone")
    assert [entry[1] for entry in site.audited("session.end", after=before)] == ["done"]
    assert [entry[:2] for entry in site.audited("user.revoke", after=before)] == [(fay, "done")]


def _unheard(site: Site, name: str, since: str) -> None:
    site.ask(
        "update oidc_identities set confirmed_at = now() - $2::text::interval, refresh_at = now() + interval '1 hour' "
        "from principals where principals.id = principal and name = $1",
        name,
        since,
    )


def test_a_session_is_shorter_where_nobody_can_ask_again(site: Site, invited: Site, mock: Mock) -> None:
    """Without a master key no refresh token is kept."""
    gus = somebody(mock, "ml")
    with site.browser() as here, invited.browser() as there:
        here.sign_in(mock, gus)
        assert _lasts(site, here) == [(timedelta(days=7),)]
        there.sign_in(mock, gus)
        assert _lasts(site, there) == [(timedelta(hours=12),)]
    assert site.ask(
        "select refresh_at from oidc_identities join principals on principals.id = principal where name = $1", gus
    ) == [(None,)]


def _lasts(site: Site, browser: Browser) -> list[tuple[object, ...]]:
    return site.ask(
        "select ends_at - created_at from sessions where hash = sha256(convert_to($1, 'UTF8'))",
        browser.http.cookies["rota"],
    )


def test_one_server_node_at_a_time_asks_about_a_user(database: str) -> None:
    async def claim_at_once() -> list[int]:
        setting_up = await asyncpg.connect(database)
        await setting_up.execute("insert into tenants (name, plan) values ('acme', 'unlimited')")
        await setting_up.execute("insert into principals (kind, name) values ('user', 'hal')")
        await setting_up.execute(
            "insert into oidc_identities (issuer, subject, principal, key_id, wrapped_key, sealed_token, refresh_at) "
            "select 'https://i', 's', id, 'k', '', '', now() from principals"
        )
        await setting_up.execute(
            "insert into sessions (hash, principal, tenant, via, ends_at) select '', principals.id, tenants.id, 'oidc', "
            "now() + interval '1 hour' from principals, tenants where tenants.name = 'acme'"
        )
        connections = [await asyncpg.connect(database) for _ in range(5)]
        found = await asyncio.gather(*(claim_refreshes(one, "https://i", limit=1) for one in connections))
        again = await claim_refreshes(setting_up, "https://i", limit=1)
        await setting_up.execute("update oidc_identities set refresh_at = now()")
        await setting_up.execute("update sessions set ended_at = now()")
        without_session = await claim_refreshes(setting_up, "https://i", limit=1)
        for one in (*connections, setting_up):
            await one.close()
        return [sum(map(len, found)), len(again), len(without_session)]

    assert asyncio.run(claim_at_once()) == [1, 0, 0]


def test_the_provider_is_asked_every_hour_and_before_its_refresh_token_ends() -> None:
    assert next_refresh(Tokens("", "", "r", None)) == EVERY
    assert next_refresh(Tokens("", "", "r", 1800.0)) == timedelta(minutes=15)
    assert next_refresh(Tokens("", "", "r", 86_400.0)) == EVERY
    assert next_refresh(Tokens("", "", "r", 5.0)) == LEAST_EVERY
