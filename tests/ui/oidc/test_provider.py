"""What the provider says is read strictly, remembered, and bounded; whatever it does ends in a sentence."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

import httpx
import pytest

from rota.admit.oidc import provider as provider_module
from rota.admit.oidc.bounded_http import MOST_BYTES, BoundedTransport
from rota.admit.oidc.provider import FAILED_SECONDS, FRESH_SECONDS, STALE_SECONDS, Provider
from rota.admit.oidc.trouble import GrantEnded, ProviderTrouble
from rota.model.accounts.oidc import OidcSettings
from rota.ui.sign_in.oidc_callback import Sample
from tests.ui.oidc.providers import Hostile


def of(hostile: Hostile, **more: Any) -> Provider:
    return Provider(OidcSettings(issuer=hostile.issuer, client_id="rota"), **more)


async def trouble(asking: Awaitable[object]) -> str:
    with pytest.raises(ProviderTrouble) as raised:
        await asking
    assert raised.value.text
    assert raised.value.advice
    return raised.value.code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("wrong-issuer", {"issuer": "https://evil.example.org"}),
        ("wrong-issuer", {"issuer": None}),
        ("wrong-algorithm", {"id_token_signing_alg_values_supported": ["none", "HS256"]}),
        ("bad-discovery", {"token_endpoint": None}),
        ("bad-discovery", {"token_endpoint": 5}),
        ("bad-discovery", {"token_endpoint": "http://login.example.org/token"}),  # in clear
        ("bad-discovery", {"authorization_endpoint": "javascript:alert(1)"}),
        ("bad-discovery", {"authorization_endpoint": "https://user:password@login.example.org/"}),
        ("bad-discovery", {"jwks_uri": "file:///etc/passwd"}),
        ("bad-discovery", {"userinfo_endpoint": "ftp://login.example.org"}),
        ("bad-discovery", {"end_session_endpoint": "https://[::bad"}),
    ],
)
async def test_a_discovery_document_that_is_wrong_is_refused(
    hostile: Hostile, code: str, said: dict[str, object]
) -> None:
    hostile.discovery = said
    assert await trouble(of(hostile).metadata()) == code


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"5", b"\xff", b"[" * 100_000])
async def test_a_discovery_document_that_is_none_is_refused(hostile: Hostile, body: bytes) -> None:
    hostile.page = lambda _: body
    assert await trouble(of(hostile).metadata()) == "bad-answer"


async def test_a_huge_discovery_document_is_not_read_to_its_end(hostile: Hostile) -> None:
    hostile.page = lambda _: b" " * (MOST_BYTES + 1)
    assert await trouble(of(hostile).metadata()) == "answer-too-long"


async def test_a_small_answer_that_unpacks_into_a_huge_one_is_refused() -> None:
    packed = httpx.MockTransport(lambda _: httpx.Response(200, headers={"content-encoding": "gzip"}, content=b""))
    async with httpx.AsyncClient(transport=BoundedTransport(packed)) as client:
        assert await trouble(client.get("https://login.example.org/")) == "bad-answer"


async def test_a_provider_that_never_answers_is_given_up(hostile: Hostile) -> None:
    hostile.hold = threading.Event()
    async with httpx.AsyncClient(transport=BoundedTransport(httpx.AsyncHTTPTransport(), seconds=0.1)) as client:
        assert await trouble(client.get(hostile.issuer + "/jwks")) == "provider-slow"


async def test_a_provider_that_is_not_there_is_told_so() -> None:
    away = Provider(OidcSettings(issuer="http://127.0.0.1:1", client_id="rota"))
    assert await trouble(away.metadata()) == "provider-away"


async def test_a_redirect_is_not_followed(hostile: Hostile) -> None:
    async def elsewhere(_: httpx.Request) -> httpx.Response:
        return httpx.Response(302, headers={"location": f"{hostile.issuer}/.well-known/openid-configuration"})

    assert await trouble(of(hostile, transport=httpx.MockTransport(elsewhere)).metadata()) == "bad-answer"


async def test_a_document_is_asked_for_once_an_hour_and_kept_for_a_day_if_the_provider_is_away(
    hostile: Hostile,
) -> None:
    clock = [0.0]
    asked = of(hostile, now=lambda: clock[0])
    before = len(hostile.seen)
    await asyncio.gather(*(asked.metadata() for _ in range(10)))
    assert len(hostile.seen) == before + 1
    clock[0] = FRESH_SECONDS + 1
    hostile.page = lambda _: b"broken"
    await asked.metadata()
    assert len(hostile.seen) == before + 2
    await asked.metadata()  # it failed a moment ago
    assert len(hostile.seen) == before + 2
    clock[0] += FAILED_SECONDS
    await asked.metadata()
    assert len(hostile.seen) == before + 3
    clock[0] = STALE_SECONDS + 1
    assert await trouble(asked.metadata()) == "bad-answer"
    hostile.page = None
    clock[0] += FAILED_SECONDS
    assert (await asked.metadata()).jwks_uri.startswith(hostile.issuer)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((400, {"error": "invalid_grant"}), GrantEnded),
        ((400, {"error": "invalid_client"}), ProviderTrouble),
        ((500, {}), ProviderTrouble),
        ((200, b"broken"), ProviderTrouble),
    ],
)
async def test_only_a_refused_grant_ends_a_refresh_for_good(
    hostile: Hostile, answer: tuple[int, Any], error: type[Exception]
) -> None:
    hostile.token_answer = lambda *_: answer
    with pytest.raises(error):
        await of(hostile).refresh("old")


async def test_a_refresh_token_is_kept_unless_the_provider_sends_a_new_one(hostile: Hostile) -> None:
    hostile.token_answer = lambda *_: (200, {"access_token": "a", "token_type": "bearer", "refresh_expires_in": 1800})
    given = await of(hostile).refresh("old")
    assert (given.refresh_token, given.refresh_seconds, hostile.forms[-1]["refresh_token"]) == (
        "old",
        1800.0,
        "old",
    )


async def test_the_client_secret_is_sent_as_the_provider_wants_it(hostile: Hostile) -> None:
    hostile.token_answer = lambda *_: (400, {"error": "invalid_grant"})
    for ways, in_body in (([], False), (["client_secret_post"], True), (["client_secret_basic"], False)):
        hostile.discovery = {"token_endpoint_auth_methods_supported": ways or None}
        settings = OidcSettings(issuer=hostile.issuer, client_id="rota", client_secret="the-secret")
        with pytest.raises(GrantEnded):
            await Provider(settings).refresh("old")
        assert ("client_secret" in hostile.forms[-1]) == in_body
    assert "the-secret" not in repr(settings)


def test_no_secret_is_in_what_is_printed() -> None:
    tokens = provider_module.Tokens("id", "access", "refresh", None)
    assert repr(tokens) == "Tokens(refresh_seconds=None)"


def test_refusals_of_strangers_are_counted_and_not_all_written() -> None:
    sample = Sample(2)
    assert [sample.take(now) for now in (0, 1, 2, 3, 60, 61, 120)] == [0, 0, None, None, 2, 0, 0]
