"""Asks the provider: its discovery document and keys, which are remembered, and tokens for codes.

The requests are Authlib's. Whatever goes wrong is a `ProviderTrouble` with a sentence: the pages show it, and nothing
here ends in an error that nobody expects. Secrets and tokens are in no text.
"""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import httpx
from joserfc.jwk import KeySet

from rota import tls
from rota.admit.oidc.bounded_http import BoundedTransport, limits, timeouts
from rota.admit.oidc.id_token import UnknownKey, judged, key_set
from rota.admit.oidc.metadata import DISCOVERY, Metadata, metadata_of
from rota.admit.oidc.trouble import GrantEnded, ProviderTrouble, SignInRefused
from rota.model.accounts.oidc import OidcSettings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP library
    from authlib.integrations.base_client import OAuthError  # type: ignore[import-untyped]
    from authlib.integrations.httpx_client import AsyncOAuth2Client  # type: ignore[import-untyped]
    from authlib.oauth2.base import OAuth2Error  # type: ignore[import-untyped]

FRESH_SECONDS = 3600.0  # for so long the discovery document and the keys are not asked for again
STALE_SECONDS = 24 * 3600.0  # and for so long they do if the provider does not answer
FAILED_SECONDS = 5.0  # for so long nobody asks again after a failure
KEYS_SECONDS = 2.0  # between two looks for new keys

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the provider gives for a code or a refresh token."""

    id_token: str = field(repr=False)  # "": none, which only a refresh may leave out
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)  # "": none
    refresh_seconds: float | None  # how long the refresh token counts, if the provider says so


class Provider:
    def __init__(
        self,
        settings: OidcSettings,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self._now = now
        self._transport = transport
        self._metadata = _Remembered[Metadata](now)
        self._keys = _Remembered[KeySet](now)
        self._looked_for_keys = -KEYS_SECONDS

    async def metadata(self) -> Metadata:
        address = self.settings.issuer.removesuffix("/") + DISCOVERY

        async def read() -> Metadata:
            return metadata_of(await self._get(address), self.settings.issuer)

        return await self._metadata.get(read)

    async def authorization_address(
        self, *, redirect_uri: str, state: str, nonce: str, verifier: str, again: bool = False
    ) -> str:
        """Where to send the browser. `again`: the provider asks who it is, whatever it remembers."""
        found = await self.metadata()
        async with self._client(found, redirect_uri) as client:
            address, _ = client.create_authorization_url(
                found.authorization_endpoint,
                state=state,
                nonce=nonce,
                code_verifier=verifier,
                **({"prompt": "login", "max_age": 0} if again else {}),
            )
        return str(address)

    async def redeem(self, *, code: str, redirect_uri: str, verifier: str) -> Tokens:
        found = await self.metadata()
        async with self._client(found, redirect_uri) as client:
            answer = await self._tokens(
                client.fetch_token(
                    found.token_endpoint,
                    grant_type="authorization_code",
                    code=code,
                    redirect_uri=redirect_uri,
                    code_verifier=verifier,
                )
            )
        if not answer.id_token:
            raise ProviderTrouble("no-id-token", "the provider sent no ID token; the scope openid may be missing there")
        return answer

    async def refresh(self, refresh_token: str) -> Tokens:
        """Raises `GrantEnded` if the provider refuses for good."""
        found = await self.metadata()
        async with self._client(found) as client:
            client.token = {"refresh_token": refresh_token, "token_type": "bearer"}
            try:
                return await self._tokens(client.refresh_token(found.token_endpoint, refresh_token=refresh_token))
            except SignInRefused as error:
                if error.code == "code-refused":
                    raise GrantEnded from None
                raise

    async def judge(self, token: str, *, nonce: str | None, access_token: str | None, now: float) -> Mapping[str, Any]:
        """The claims of an ID token, if it is good. Keys that we do not know are looked for, but not at any rate."""
        found = await self.metadata()

        def judge(keys: KeySet) -> Mapping[str, Any]:
            return judged(
                token,
                keys,
                algorithms=found.algorithms,
                issuer=self.settings.issuer,
                client_id=self.settings.client_id,
                nonce=nonce,
                access_token=access_token,
                now=now,
            )

        try:
            return judge(await self.keys())
        except UnknownKey:
            if self._now() - self._looked_for_keys < KEYS_SECONDS:
                raise
            self._looked_for_keys = self._now()
            self._keys.forget()
            return judge(await self.keys())

    async def keys(self) -> KeySet:
        """Those that the provider signs with."""
        address = (await self.metadata()).jwks_uri

        async def read() -> KeySet:
            return key_set(await self._get(address))

        return await self._keys.get(read)

    async def userinfo(self, access_token: str, subject: str) -> Mapping[str, Any]:
        """What the provider tells of this subject besides its ID token; empty if it tells no more."""
        address = (await self.metadata()).userinfo_endpoint
        if address is None or not access_token:
            return {}
        found = await self._get(address, {"authorization": f"Bearer {access_token}"})
        if found.get("sub") != subject:  # OpenID Connect Core, section 5.3.2
            raise SignInRefused("wrong-subject", "the provider tells of somebody else than it signed in")
        return found

    async def logout_address(self, back: str) -> str | None:
        """Where to send the browser to sign out of the provider, and come `back`; None: it has no such address."""
        address = (await self.metadata()).end_session_endpoint
        if address is None:
            return None
        query = urlencode({"client_id": self.settings.client_id, "post_logout_redirect_uri": back})
        return f"{address}{'&' if '?' in address else '?'}{query}"

    async def _get(self, address: str, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        async with httpx.AsyncClient(
            transport=self._bounded(), timeout=timeouts(), trust_env=False, follow_redirects=False
        ) as client:
            answer = await client.get(address, headers={"accept": "application/json", **(headers or {})})
        document = _json(answer.content) if answer.status_code == 200 else None
        if not isinstance(document, dict):
            what = (
                f"answers {answer.status_code}"
                if answer.status_code != 200
                else "answers with something else than JSON"
            )
            raise ProviderTrouble("bad-answer", f"{address.partition('?')[0][:200]} {what}")
        return document

    async def _tokens(self, asking: Awaitable[Mapping[str, Any]]) -> Tokens:
        try:
            found = await asking
        except (OAuthError, OAuth2Error) as error:
            code = str(error.error)[:60]
            if code == "invalid_grant":
                raise SignInRefused(
                    "code-refused", "the provider does not take the code: it was used, or is too old"
                ) from None
            raise ProviderTrouble("token-refused", f"the provider gives no token: {_shown(code)}") from None
        except httpx.HTTPStatusError as error:
            raise ProviderTrouble(
                "bad-answer", f"the provider gives no token: it answers {error.response.status_code}"
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ProviderTrouble("bad-answer", "the provider's answer for a token can't be read") from None
        texts = {name: found.get(name) for name in ("id_token", "access_token", "refresh_token")}
        lasts = found.get("refresh_expires_in")
        return Tokens(
            **{name: text if isinstance(text, str) else "" for name, text in texts.items()},
            refresh_seconds=float(lasts) if isinstance(lasts, int | float) and lasts > 0 else None,
        )

    def _client(self, found: Metadata, redirect_uri: str | None = None) -> Any:
        settings = self.settings
        way = "none" if not settings.client_secret else "client_secret_post" if found.by_body else "client_secret_basic"
        return AsyncOAuth2Client(
            client_id=settings.client_id,
            client_secret=settings.client_secret or None,
            token_endpoint_auth_method=way,
            scope=" ".join(settings.scopes),
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            transport=self._bounded(),
            timeout=timeouts(),
            trust_env=False,
        )

    def _bounded(self) -> httpx.AsyncBaseTransport:
        """Of one request: it is closed with its client."""
        inner = self._transport or httpx.AsyncHTTPTransport(verify=tls.trusted(""), limits=limits(), trust_env=False)
        return BoundedTransport(inner)


class _Remembered(Generic[T]):
    """An answer that is asked for once, however many wait for it, and that serves for longer if asking fails."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._asking = asyncio.Lock()
        self._value: T | None = None
        self._read_at = 0.0
        self._failed: tuple[float, ProviderTrouble] | None = None

    def forget(self) -> None:
        """The next one asks again; if that fails, the old answer still serves."""
        self._read_at = self._now() - FRESH_SECONDS

    async def get(self, read: Callable[[], Awaitable[T]]) -> T:
        async with self._asking:
            now = self._now()
            if self._value is not None and now - self._read_at < FRESH_SECONDS:
                return self._value
            if self._failed is None or now - self._failed[0] >= FAILED_SECONDS:
                try:
                    self._value, self._read_at, self._failed = await read(), self._now(), None
                    return self._value
                except ProviderTrouble as error:
                    self._failed = self._now(), error
            if self._value is not None and now - self._read_at < STALE_SECONDS:
                return self._value
            raise self._failed[1].with_traceback(None)


def _json(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _shown(code: str) -> str:
    """A code of an error as the provider names it, which may be anything."""
    return code if code.isascii() and code.replace("_", "").replace("-", "").isalnum() else "it says no reason"
