"""A provider that plays tricks, or an attacker between it and us: every one is refused, with a page and an audit entry."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from joserfc.jwk import Key

from rota.admit.oidc.id_token import key_set
from tests.faults.scene import eventually
from tests.harness.cluster import CALM, Cluster, free_port
from tests.ui.oidc.browser import Browser, Site
from tests.ui.oidc.providers import (
    Hostile,
    edwards,
    elliptic,
    rsa,
    signed_with,
    signed_with_public_key,
    unsigned,
)

FAR = 10_000.0


def refused(
    site: Site, hostile: Hostile, code: str, *, subject: str = "", status: int = 403, denied: str = "denied"
) -> str:
    """Signs in, and expects a refusal: its page, no session, no user, and one entry in the audit log. The page's text."""
    subject = subject or f"s-{uuid4().hex[:10]}"
    before, users = site.last_entry(), site.ask("select count(*) from principals")
    with site.browser() as browser:
        answered = browser.sign_in(hostile, subject)
        assert (answered.status_code, f"<code>{code}</code>" in answered.text) == (status, True), answered.text
        assert not browser.signed_in
    assert site.ask("select count(*) from principals") == users
    [(_, outcome, reason)] = site.audited("session.start", after=before)
    assert (outcome, reason.split(": ")[:2]) == (denied, ["oidc", code])
    return answered.text


def accepted(site: Site, hostile: Hostile, subject: str = "") -> str:
    subject = subject or f"s-{uuid4().hex[:10]}"
    with site.browser() as browser:
        answered = browser.sign_in(hostile, subject)
        assert answered.status_code == 303, answered.text
        return str(browser.whoami()["user"])


@pytest.fixture
def site(hostile_site: Site) -> Site:
    return hostile_site


def test_an_honest_one_is_believed(site: Site, hostile: Hostile) -> None:
    assert accepted(site, hostile)


@pytest.mark.parametrize(
    ("code", "sign"),
    [
        ("wrong-algorithm", unsigned),
        ("wrong-algorithm", signed_with_public_key),
        ("bad-signature", lambda hostile, claims: signed_with(rsa(hostile.key.kid or ""), claims)),
        ("unknown-key", lambda _, claims: signed_with(rsa("never-published"), claims)),
        ("wrong-algorithm", lambda hostile, claims: signed_with(hostile.key, claims, alg="RS384")),
        ("wrong-type", lambda hostile, claims: signed_with(hostile.key, claims, typ="at+jwt")),
        ("malformed-token", lambda *_: "not.a.token"),
        ("malformed-token", lambda *_: "x"),
        ("malformed-token", lambda *_: "a" * 100_000),
        ("bad-signature", lambda hostile, claims: signed_with(hostile.key, claims)[:-8] + "AAAAAAAA"),
    ],
)
def test_a_token_that_the_provider_did_not_sign_in_an_accepted_way_is_refused(
    site: Site, hostile: Hostile, code: str, sign: Callable[[Hostile, dict[str, object]], str]
) -> None:
    hostile.sign = sign
    refused(site, hostile, code)


def test_claims_that_were_changed_after_the_signature_are_refused(site: Site, hostile: Hostile) -> None:
    def forged(honest: Hostile, claims: dict[str, object]) -> str:
        head, _, signature = signed_with(honest.key, claims).split(".")
        _, body, _ = signed_with(honest.key, {**claims, "groups": ["rota-admins"]}).split(".")
        return f"{head}.{body}.{signature}"

    hostile.sign = forged
    refused(site, hostile, "bad-signature")


@pytest.mark.parametrize(
    ("code", "claims"),
    [
        ("wrong-audience", {"aud": "another-client"}),
        ("wrong-audience", {"aud": ["rota", "another-client"]}),  # for several, and nobody says who asked
        ("wrong-audience", {"aud": ["rota", "another-client"], "azp": "another-client"}),
        ("wrong-audience", {"azp": "another-client"}),
        ("wrong-audience", {"aud": None}),
        ("wrong-issuer", {"iss": "https://evil.example.org"}),
        ("wrong-issuer", {"iss": None}),
        ("wrong-nonce", {"nonce": "another"}),
        ("wrong-nonce", {"nonce": None}),
        ("wrong-nonce", {"nonce": 5}),
        ("expired", {"exp": int(time.time() - 61)}),
        ("malformed-token", {"exp": None}),
        ("malformed-token", {"exp": "soon"}),
        ("malformed-token", {"exp": True}),
        ("malformed-token", {"iat": None}),
        ("issued-in-future", {"iat": int(time.time() + FAR), "exp": int(time.time() + 2 * FAR)}),
        ("issued-in-future", {"nbf": int(time.time() + FAR)}),
        ("no-subject", {"sub": ""}),
        ("no-subject", {"sub": None}),
        ("no-subject", {"sub": "x" * 256}),
        ("no-subject", {"sub": ["eve"]}),
        ("no-subject", {"sub": "a\nb"}),
        ("wrong-at-hash", {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}),
        ("wrong-at-hash", {"at_hash": 7}),
    ],
)
def test_a_token_for_something_else_is_refused(
    site: Site, hostile: Hostile, code: str, claims: dict[str, object]
) -> None:
    hostile.claims = claims
    refused(site, hostile, code)


def test_several_audiences_are_fine_if_we_are_the_one_that_asked(site: Site, hostile: Hostile) -> None:
    hostile.claims = {"aud": ["rota", "another-client"], "azp": "rota"}
    accepted(site, hostile)


def test_a_token_of_an_earlier_sign_in_is_refused(site: Site, hostile: Hostile) -> None:
    """A nonce counts for one sign-in, so whoever took somebody's token can't bring it along."""
    victim = f"s-{uuid4().hex[:10]}"
    accepted(site, hostile, victim)
    stolen = hostile.signed(hostile.honest_claims(sub=victim, nonce=hostile.last_nonce))
    hostile.sign = lambda *_: stolen
    refused(site, hostile, "wrong-nonce")


@pytest.mark.parametrize(("make", "algorithm"), [(rsa, "RS256"), (elliptic, "ES256"), (edwards, "EdDSA")])
def test_new_keys_of_the_provider_are_found(
    site: Site, hostile: Hostile, make: Callable[[str], Key], algorithm: str
) -> None:
    """It publishes another one, and signs with it at once. We look for keys again, at most once in two seconds."""
    accepted(site, hostile)
    old, new = hostile.key, make(f"new-{uuid4().hex[:6]}")
    hostile.published.append(new)
    hostile.key = new

    def comes_in() -> bool:
        with site.browser() as browser:
            found = browser.sign_in(hostile, f"s-{uuid4().hex[:10]}").status_code == 303
        if not found:
            time.sleep(0.2)  # each refusal takes one of the rows that the audit log has for a minute
        return found

    try:
        eventually(comes_in, seconds=60, what=f"the new key ({algorithm}) is found")
    finally:
        hostile.key = old


def test_tokens_with_unknown_keys_do_not_make_us_ask_for_keys_at_any_rate(site: Site, hostile: Hostile) -> None:
    hostile.sign = lambda _, claims: signed_with(rsa_once, claims)
    rsa_once = rsa("never-published")
    for _ in range(2):  # so that the second begins right after a look, whatever happened before
        with site.browser() as browser:
            browser.sign_in(hostile, "eve")
    asked = hostile.seen.count("/jwks")
    began = time.monotonic()
    with site.browser() as browser:
        for _ in range(5):
            assert browser.sign_in(hostile, "eve").status_code == 403
    looks = hostile.seen.count("/jwks") - asked
    assert looks <= 1 + (time.monotonic() - began) / 10


def test_an_unverified_mail_address_is_nobodys(site: Site, hostile: Hostile) -> None:
    subject = f"s-{uuid4().hex[:10]}"
    site.add_user(f"owner-of-{subject}", email=f"{subject}@example.org", role="admin")
    hostile.claims = {"email_verified": False}
    assert accepted(site, hostile, subject) != f"owner-of-{subject}"


def test_a_mail_address_with_letters_that_only_look_alike_is_nobodys(site: Site, hostile: Hostile) -> None:
    """The Kelvin sign becomes a k in lower case."""
    name = f"k{uuid4().hex[:8]}"
    site.add_user(name, email=f"{name}@example.org", role="admin")
    hostile.claims = {"email": f"\u212a{name[1:]}@example.org"}
    assert accepted(site, hostile) != name


def test_the_word_that_an_address_is_verified_counts_for_the_address_beside_it(site: Site, hostile: Hostile) -> None:
    """Not for one from another place."""
    subject = f"s-{uuid4().hex[:10]}"
    site.add_user(f"owner-of-{subject}", email=f"{subject}@example.org", role="admin")
    hostile.claims = {"email_verified": None, "groups": None}
    hostile.userinfo = {"sub": subject, "email_verified": True, "groups": ["ml"]}
    assert accepted(site, hostile, subject) != f"owner-of-{subject}"


def test_groups_may_come_from_the_userinfo_of_the_same_subject_only(site: Site, hostile: Hostile) -> None:
    subject = f"s-{uuid4().hex[:10]}"
    hostile.claims = {"groups": None}
    hostile.userinfo = {"sub": "somebody-else", "groups": ["rota-admins"]}
    refused(site, hostile, "wrong-subject", subject=subject)
    hostile.userinfo = {"sub": subject, "groups": ["ml"]}
    name = accepted(site, hostile, subject)
    assert site.roles(name) == {("member", "default", "oidc")}


@pytest.mark.parametrize(
    "groups", [5, True, None, "", {}, [], [None, 5, {}], ["x" * 300], "rota-admins-of-something-else", ["ROTA-ADMINS"]]
)
def test_groups_of_another_form_give_no_role(site: Site, hostile: Hostile, groups: object) -> None:
    hostile.claims = {"groups": groups}
    subject = f"s-{uuid4().hex[:10]}"
    hostile.userinfo = {"sub": subject}
    with site.browser() as browser:
        refused_here = browser.sign_in(hostile, subject)
        assert (refused_here.status_code, "<code>no-role</code>" in refused_here.text) == (403, True)
        assert not browser.signed_in


# ---- the answer that the browser brings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "works"), [("own", True), ("https://evil.example.org", False), ("own&iss=own", False)]
)
def test_an_answer_must_be_from_the_provider_that_was_asked(
    site: Site, hostile: Hostile, said: str, works: bool
) -> None:
    with site.browser() as browser:
        back = hostile.agree(browser.start(), f"s-{uuid4().hex[:10]}")
        answered = browser.get(f"{back}&iss={said.replace('own', hostile.issuer)}")
        assert (answered.status_code == 303, browser.signed_in) == (works, works)
        assert works or "<code>wrong-issuer</code>" in answered.text


def test_a_code_of_somebody_elses_sign_in_is_refused(site: Site, hostile: Hostile) -> None:
    """PKCE: a code belongs to the browser that asked for it, whoever brings it."""
    with site.browser() as victim, site.browser() as attacker:
        code = parse_qs(urlsplit(hostile.agree(victim.start(), "victim")).query)["code"][0]
        state = parse_qs(urlsplit(attacker.start()).query)["state"][0]
        answered = attacker.get(f"/ui/oidc/callback?code={code}&state={state}")
        assert (answered.status_code, "<code>code-refused</code>" in answered.text) == (403, True)
        assert not attacker.signed_in


# ---- a provider that is broken -------------------------------------------------------------------------------------------


def test_tokens_that_make_no_sense_are_a_page_and_not_an_error(site: Site, hostile: Hostile) -> None:
    for body in (b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"id_token": 5}', b"\xff\xfe", b"[" * 100_000):
        hostile.token_answer = lambda *_, body=body: (200, body)
        with site.browser() as browser:
            answered = browser.sign_in(hostile, "eve")
            assert (answered.status_code, "Not signed in" in answered.text) == (503, True), body
            assert not browser.signed_in
    for status in (400, 401, 403, 404, 429, 500, 502):
        hostile.token_answer = lambda *_, status=status: (status, {"error": "<b>invalid_client</b>"})
        with site.browser() as browser:
            answered = browser.sign_in(hostile, "eve")
            assert (answered.status_code, "<b>" in answered.text) == (503, False), status


def test_an_answer_that_is_too_long_is_not_read_to_its_end(site: Site, hostile: Hostile) -> None:
    hostile.token_answer = lambda *_: (200, b'{"id_token": "' + b"a" * 5_000_000 + b'"}')
    refused(site, hostile, "answer-too-long", status=503, denied="failed")


def test_keys_that_make_no_sense_are_left_out() -> None:
    good = rsa("good").as_dict(private=False)
    weak = {"kty": "RSA", "kid": "weak", "n": "AQAB" * 20, "e": "AQAB"}
    document = {"keys": [None, 5, {}, {"kty": "oct", "k": "AAAA"}, {"kty": "RSA"}, {"kty": "EC", "crv": 5}, weak, good]}
    assert [key.kid for key in key_set(document)] == ["good"]
    assert [key.kid for key in key_set({"keys": "x"})] == []


def test_a_slow_provider_holds_up_nobody_else(site: Site, hostile: Hostile) -> None:
    """While somebody waits for it, the server node answers others; and they get a page in the end."""
    hostile.hold = threading.Event()
    hostile.claims = {"groups": None}  # asks for userinfo, which waits
    answers: list[int] = []

    def wait() -> None:
        with site.browser() as browser:
            answers.append(browser.sign_in(hostile, "eve").status_code)

    waiting = threading.Thread(target=wait)
    asked = hostile.seen.count("/userinfo")
    waiting.start()
    eventually(lambda: hostile.seen.count("/userinfo") > asked, seconds=60, what="somebody waits for the provider")
    assert site.send("GET", "/v1/whoami").status_code == 200
    assert answers == []
    waiting.join()
    assert answers == [503]


def test_who_was_asked_long_ago_proves_it_again_before_changing_accounts(site: Site, hostile: Hostile) -> None:
    """Two people with a session of this minute: of one, the provider says that it asked an hour ago."""
    answers = {}
    for ago in (0, 3600):
        hostile.claims = {"auth_time": int(time.time()) - ago}
        with site.browser() as browser:
            browser.sign_in(hostile, f"s-{uuid4().hex[:10]}")
            made = browser.http.post(
                "/v1/tokens",
                json={"name": "laptop", "scopes": ["tasks:read"]},
                headers={"sec-fetch-site": "same-origin"},
            )
            answers[ago] = (made.status_code, made.json().get("type", "").rpartition("/")[2])
    assert answers == {0: (201, ""), 3600: (403, "proof-needed")}


def test_a_provider_that_is_away_leaves_a_page_and_passwords(
    site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("away")
    Site.write(folder, f"http://127.0.0.1:{free_port()}")
    with Cluster(site.cluster.database, folder, time_scale=CALM) as running:
        running.tokens = site.cluster.tokens
        running.add_server()
        with Browser(running.urls[0]) as browser:
            answered = browser.get("/ui/oidc/start?next=/ui/account")
            assert (answered.status_code, "<code>provider-away</code>" in answered.text) == (503, True)
            assert "rota doctor" in answered.text
            assert 'href="/ui/oidc/start?next=%2Fui%2Faccount"' in answered.text
            assert 'href="/ui/sign-in"' in answered.text
            assert browser.get("/ui/sign-in").status_code == 200
            assert browser.get("/ui/oidc/signed-out").status_code == 200
            assert browser.get("/v1/whoami").status_code == 401


def test_sign_ins_that_nobody_finishes_do_not_pile_up(site: Site, hostile: Hostile) -> None:
    """Each that begins deletes two that are too old; housekeeping deletes the others."""
    site.ask(
        "insert into oidc_sign_ins (state_hash, browser_hash, nonce, verifier, redirect_uri, next, began_at) "
        "select number::text::bytea, '', '', '', '', '', now() - interval '11 minutes' from generate_series(1, 5) number"
    )
    left = []
    with site.browser() as browser:
        for _ in range(3):
            browser.start()
            old = site.ask("select count(*) from oidc_sign_ins where began_at < now() - interval '10 minutes'")
            left.append(old[0][0])
    assert left[0] <= 3
    assert left[-1] == 0
