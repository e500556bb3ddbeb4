"""Asks the provider again, every hour, about users that it signed in: their groups become their roles.

Needs a refresh token, which is stored sealed by the master key; without one a session just ends earlier. One server
node at a time asks about a user. A provider that refuses ended the sign-in, so the user's sessions end here too. One
that is away is asked again, and sessions end only if nobody heard of the user for as long as the settings allow.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from datetime import timedelta

import msgspec
import structlog

from rota.admit.oidc.identity import Identity, identity_of, lacks
from rota.admit.oidc.people import entry, give_roles
from rota.admit.oidc.provider import Provider, Tokens
from rota.admit.oidc.trouble import GrantEnded, ProviderTrouble, SignInRefused
from rota.model.accounts.oidc import OidcSettings
from rota.model.audit import Entry
from rota.model.errors import Problem
from rota.store.audit import record
from rota.store.database import AnyConnection, Database
from rota.store.envelope import CantOpen, SecretName, seal, unseal
from rota.store.key_file import KeyFile
from rota.store.oidc import (
    IdentityRow,
    claim_refreshes,
    confirm_identity,
    drop_refresh_token,
    end_provider_sessions,
    end_unconfirmed_sessions,
    put_off_refresh,
    save_refresh_token,
    unconfirmed_roles,
)
from rota.store.principals import find_principal, lock_accounts

log = structlog.get_logger()

ROUND_SECONDS = 5.0
EVERY = timedelta(hours=1)
LEAST_EVERY = timedelta(minutes=1)
AWAY_AGAIN = timedelta(minutes=5)
ROLES_LAST = timedelta(days=30)  # those that a provider gave, unless it confirms them
ROWS = 100  # of each kind in one round
_NOTHING = OidcSettings(issuer="", client_id="")  # gives no roles


def next_refresh(tokens: Tokens) -> timedelta:
    """Half of what the refresh token lasts, if the provider says how long: it must not run out between."""
    if tokens.refresh_seconds is None:
        return EVERY
    return max(LEAST_EVERY, min(EVERY, timedelta(seconds=tokens.refresh_seconds / 2)))


async def keep_refresh_token(connection: AnyConnection, keys: KeyFile | None, identity: int, tokens: Tokens) -> bool:
    """Stores it for the next refresh. False: there is none, or no master key to seal it with."""
    if keys is None or not tokens.refresh_token:
        await drop_refresh_token(connection, identity)
        return False
    sealed = seal(keys.keyring(), _sealed_as(identity), tokens.refresh_token, os.urandom)
    await save_refresh_token(connection, identity, sealed, next_refresh(tokens))
    return True


async def read_identity(
    provider: Provider, tokens: Tokens, *, nonce: str | None, subject: str | None, now: float
) -> Identity:
    """Judges what the provider sent. `subject`: whom it must be about, of a refresh."""
    if tokens.id_token:
        claims = await provider.judge(tokens.id_token, nonce=nonce, access_token=tokens.access_token, now=now)
    else:
        claims = {"iss": provider.settings.issuer, "sub": subject}
    if subject is not None and claims["sub"] != subject:
        raise SignInRefused("wrong-subject", "the provider refreshes somebody else than it signed in")
    groups_claim = provider.settings.groups_claim
    more = await provider.userinfo(tokens.access_token, claims["sub"]) if lacks(claims, groups_claim) else {}
    if not tokens.id_token and not more:
        raise ProviderTrouble("no-id-token", "the provider says nothing about the user at a refresh")
    return identity_of(claims, more, groups_claim)


class Refresher:
    def __init__(
        self,
        database: Database,
        provider: Provider,
        keys: KeyFile | None,
        *,
        server: str,
        changed: Callable[[], None],
    ) -> None:
        """`changed`: rights were taken or given."""
        self._database = database
        self._provider = provider
        self._keys = keys
        self._server = server
        self._changed = changed

    async def run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            try:
                await self.round()
            except Problem as error:
                log.debug("oidc.put_off", error=error.detail)

    async def round(self) -> None:
        for _ in range(ROWS):
            async with self._database.engine() as connection:
                # One at a time: more could wait here for longer than the claim lasts.
                rows = await claim_refreshes(connection, self._provider.settings.issuer, limit=1)
            if not rows or not await self._refresh(rows[0]):
                break
        await self._end_unconfirmed()

    async def _refresh(self, row: IdentityRow) -> bool:
        """False: the provider is away."""
        try:
            tokens = await self._provider.refresh(self._opened(row))
            identity = await read_identity(self._provider, tokens, nonce=None, subject=row.subject, now=time.time())
        except ProviderTrouble as trouble:
            log.warning("oidc.not_refreshed", principal=row.principal, code=trouble.code, error=trouble.text)
            async with self._database.engine() as connection:
                await put_off_refresh(connection, row.id, AWAY_AGAIN)
            return False
        except (GrantEnded, SignInRefused, CantOpen) as error:
            await self._end(row, error)
            return True
        async with self._database.engine() as connection, connection.transaction():
            await lock_accounts(connection)
            user = await find_principal(connection, row.principal)
            if user is None:
                return True
            entries = await give_roles(connection, self._provider.settings, user, identity.groups)
            await confirm_identity(connection, row.id)
            await keep_refresh_token(connection, self._keys, row.id, tokens)  # the old one, unless there is a new one
            await self._record(connection, entries)
        if entries:
            self._changed()
        return True

    def _opened(self, row: IdentityRow) -> str:
        if self._keys is None:
            raise CantOpen("this server node has no master key")
        return unseal(self._keys.keyring(), _sealed_as(row.id), row.sealed)

    async def _end(self, row: IdentityRow, error: Exception) -> None:
        """The provider does not know the sign-in any more. Roles stay until it takes them, or is silent for long."""
        code = error.code if isinstance(error, SignInRefused) else "grant-ended"
        async with self._database.engine() as connection, connection.transaction():
            if isinstance(error, CantOpen):
                log.error("oidc.cant_open", principal=row.principal, error=str(error))
            await drop_refresh_token(connection, row.id)
            ended = await end_provider_sessions(connection, row.principal)
            user = await find_principal(connection, row.principal)
            if user is not None:
                reason = f"the sign-in provider refused to refresh it: {code}"
                await self._record(connection, [_ended(user.name, number, reason) for number in ended])
        self._changed()

    async def _end_unconfirmed(self) -> None:
        unconfirmed = timedelta(seconds=self._provider.settings.session_seconds)
        reason = "the sign-in provider did not confirm the user for too long"
        async with self._database.engine() as connection:
            async with connection.transaction():
                ended = await end_unconfirmed_sessions(connection, unconfirmed, rows=ROWS)
                await self._record(connection, [_ended(name, number, reason) for number, _, name in ended])
            gone = await unconfirmed_roles(connection, ROLES_LAST, rows=ROWS)
            if gone:
                async with connection.transaction():
                    await lock_accounts(connection)
                    await self._take_unconfirmed(connection)
        if ended or gone:
            self._changed()

    async def _take_unconfirmed(self, connection: AnyConnection) -> None:
        """Reads them again: somebody may have signed in meanwhile."""
        for principal in await unconfirmed_roles(connection, ROLES_LAST, rows=ROWS):
            user = await find_principal(connection, principal)
            if user is not None:
                await self._record(connection, await give_roles(connection, _NOTHING, user, ()))

    async def _record(self, connection: AnyConnection, entries: list[Entry]) -> None:
        if entries:
            await record(connection, *(msgspec.structs.replace(one, server=self._server) for one in entries))


def _ended(name: str, number: int, reason: str) -> Entry:
    return entry("session.end", str(number), reason=f"{name}: {reason}")


def _sealed_as(identity: int) -> SecretName:
    """No tenant has the number 0, so nobody's secret can stand in for it."""
    return SecretName(0, f"oidc identity {identity}")
