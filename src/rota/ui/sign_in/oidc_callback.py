"""From what the provider sent back to a session: the checks in their order, then one transaction.

1. The sign-in is one that this browser began, and it is over with this (`take_sign_in`).
2. The answer is from the provider that was asked (RFC 9207), and no error.
3. The code is exchanged for tokens, with the PKCE verifier; the ID token is judged.
4. The identity becomes a user, its groups become roles, and a session begins.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from fastapi import Request, Response

from rota.admit.authenticate import hash_secret
from rota.admit.oidc.identity import Identity
from rota.admit.oidc.people import Person, no_roles, recognise
from rota.admit.oidc.provider import Provider, Tokens
from rota.admit.oidc.refresh import keep_refresh_token, read_identity
from rota.admit.oidc.trouble import ProviderTrouble, SignInRefused
from rota.api.audited import audit_anonymous
from rota.api.origin import origin
from rota.api.services import Services
from rota.api.sign_in.cookies import SESSION_LASTS, is_secure
from rota.api.sign_in.sessions import start_session
from rota.model.audit import Entry
from rota.store.audit import record
from rota.store.oidc import SignInRow, set_proof, take_sign_in
from rota.store.principals import lock_accounts
from rota.ui.pages import redirect

BROWSER = re.compile(r"^[A-Za-z0-9_-]{43}\Z", re.ASCII)

_STATE = re.compile(r"^[A-Za-z0-9_-]{64}\Z", re.ASCII)
_ERROR = re.compile(r"^[a-z_]{1,60}\Z", re.ASCII)
_LONGEST_CODE = 8_000
_AGAIN = "Begin again at the sign-in page of Rota."
# Refusals of one node that go into the audit log each minute; the others are counted. Anybody may send anything here,
# but only a browser that begins a sign-in at Rota gets further.
_STRAYS_A_MINUTE = 30
_REFUSALS_A_MINUTE = 300
_STRAYS = frozenset({"no-state", "other-browser", "used-or-old"})


def cookie_name(secure: bool) -> str:
    """Of the cookie that a sign-in is bound to."""
    return "__Host-rota-oidc" if secure else "rota-oidc"


async def come_back(found: Services, provider: Provider, request: Request) -> Response:
    row = await _take(found, request)
    code = await _code(provider, request)
    tokens = await provider.redeem(code=code, redirect_uri=row.redirect_uri, verifier=row.verifier)
    identity = await read_identity(provider, tokens, nonce=row.nonce, subject=None, now=time.time())
    answer = redirect(row.next)
    try:
        refusal = await _enter(found, provider, request, answer, tokens, identity)
    except SignInRefused as error:
        refusal = error
    if refusal is not None:
        refusal.add_note(_who(identity))
        raise refusal
    secure = is_secure(request, found.settings)
    answer.delete_cookie(cookie_name(secure), secure=secure, httponly=True, samesite="lax", path="/")
    return answer


async def _take(found: Services, request: Request) -> SignInRow:
    """What this browser began. Whoever knows only the address ends nobody's sign-in."""
    states = request.query_params.getlist("state")
    browser = request.cookies.get(cookie_name(is_secure(request, found.settings)), "")
    if len(states) != 1 or not _STATE.match(states[0]):
        raise SignInRefused("no-state", "this address is not the end of a sign-in", _AGAIN)
    if not BROWSER.match(browser):
        raise SignInRefused(
            "other-browser", "this sign-in began in another browser, or this one keeps no cookies", _AGAIN
        )
    async with found.database.engine() as connection:
        row = await take_sign_in(connection, state_hash=hash_secret(states[0]), browser_hash=hash_secret(browser))
    if row is None:
        raise SignInRefused(
            "used-or-old",
            "this sign-in is over: it was finished, took longer than ten minutes, or is not yours",
            _AGAIN,
        )
    return row


async def _code(provider: Provider, request: Request) -> str:
    query = request.query_params
    issuers, errors, codes = (query.getlist(name) for name in ("iss", "error", "code"))
    metadata = await provider.metadata()
    if issuers != [provider.settings.issuer] and (issuers or metadata.names_itself):
        raise SignInRefused("wrong-issuer", "the answer is not from the provider that was asked", _AGAIN)
    if errors:
        shown = errors[0] if _ERROR.match(errors[0]) else "error"
        raise SignInRefused(
            "provider-refused",
            f"the provider did not sign you in: {shown.replace('_', ' ')}",
            "Try again, or ask who runs the provider.",
        )
    if len(codes) != 1 or not 0 < len(codes[0]) <= _LONGEST_CODE or not codes[0].isprintable():
        raise SignInRefused("no-code", "the provider's answer has no code", _AGAIN)
    return codes[0]


async def _enter(
    found: Services, provider: Provider, request: Request, answer: Response, tokens: Tokens, identity: Identity
) -> SignInRefused | None:
    """A refusal that is returned, not raised, leaves what changed: a role that is gone stays gone."""
    async with found.database.engine() as connection, connection.transaction():
        await lock_accounts(connection)
        person = await recognise(connection, provider.settings, identity)
        if person.entries:
            await record(connection, *_complete(person))
        if not person.has_roles:
            refusal = no_roles(identity)
        else:
            refusal = None
            refreshes = await keep_refresh_token(connection, found.secret_keys, person.identity, tokens)
            session = await start_session(
                found,
                request,
                answer,
                principal=person.principal,
                via="oidc",
                connection=connection,
                lasts=SESSION_LASTS if refreshes else timedelta(seconds=provider.settings.session_seconds),
            )
            if identity.asked_at is not None:
                await set_proof(connection, session, datetime.fromtimestamp(max(0.0, identity.asked_at), UTC))
    found.authenticator.forget()
    return refusal


def _complete(person: Person) -> list[Entry]:
    """The entries, with where the request came from."""
    where = origin()
    return [
        msgspec.structs.replace(
            one,
            via="ui",
            address=where.address,
            agent=where.agent,
            request_id=where.request_id,
            server=where.server,
        )
        for one in person.entries
    ]


def _who(identity: Identity) -> str:
    return identity.mail or identity.name or identity.subject


# ---- refusals in the audit log ---------------------------------------------------------------------------------------


@dataclass
class Sample:
    """What is written is bounded."""

    most: int  # a minute
    minute: int = 0
    written: int = 0
    more: int = 0  # not written, since the last that was

    def take(self, now: float) -> int | None:
        """How many were left out before this one; None: leave it out too."""
        if int(now // 60) != self.minute:
            self.minute, self.written = int(now // 60), 0
        if self.written >= self.most:
            self.more += 1
            return None
        self.written += 1
        more, self.more = self.more, 0
        return more


_strays, _refusals = Sample(_STRAYS_A_MINUTE), Sample(_REFUSALS_A_MINUTE)


async def audit_refusal(found: Services, refusal: SignInRefused) -> None:
    more = (_strays if refusal.code in _STRAYS else _refusals).take(time.time())
    if more is None:
        return
    who = next(iter(getattr(refusal, "__notes__", [])), "")
    left_out = f" ({more} more were not written)" if more else ""
    async with found.database.engine() as connection:
        await audit_anonymous(
            connection,
            who.replace("\0", ""),
            "session.start",
            "oidc",
            outcome="failed" if isinstance(refusal, ProviderTrouble) else "denied",
            reason=f"oidc: {refusal.code}: {refusal.text}"[:400] + left_out,
        )
