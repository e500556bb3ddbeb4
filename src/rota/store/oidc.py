"""Single sign-on as rows: sign-ins on their way, identities of a provider, and sealed refresh tokens.

Bindings that come from a provider are in `principals.py`, with the source `oidc`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.store.database import AnyConnection
from rota.store.envelope import Sealed
from rota.store.statements import sql

SIGN_IN_LASTS = timedelta(minutes=10)
CLAIM_LASTS = timedelta(minutes=2)  # longer than asking a provider takes


@dataclass(frozen=True, slots=True)
class SignInRow:
    nonce: str
    verifier: str
    redirect_uri: str
    next: str


@dataclass(frozen=True, slots=True)
class IdentityRow:
    """An identity whose turn it is to be refreshed."""

    id: int
    issuer: str
    subject: str
    principal: int
    sealed: Sealed


@dataclass(frozen=True, slots=True)
class Places:
    """The tenants and pools of some names that exist."""

    tenants: dict[str, int]
    pools: frozenset[str]


async def begin_sign_in(connection: AnyConnection, row: SignInRow, *, state_hash: bytes, browser_hash: bytes) -> None:
    await connection.execute(
        sql("oidc/begin_sign_in"),
        state_hash,
        browser_hash,
        row.nonce,
        row.verifier,
        row.redirect_uri,
        row.next,
        SIGN_IN_LASTS,
    )


async def take_sign_in(connection: AnyConnection, *, state_hash: bytes, browser_hash: bytes) -> SignInRow | None:
    """None: there is none, it was used, is too old, or another browser began it."""
    row = await connection.fetchrow(sql("oidc/take_sign_in"), state_hash, browser_hash, SIGN_IN_LASTS)
    return None if row is None else SignInRow(*row)


async def forget_sign_ins(connection: AnyConnection, *, rows: int) -> None:
    """Deletes those that nobody finished."""
    await connection.execute(sql("oidc/forget_sign_ins"), SIGN_IN_LASTS, rows)


async def find_identity(connection: AnyConnection, issuer: str, subject: str) -> tuple[int, int] | None:
    """Its number and its principal."""
    row = await connection.fetchrow(sql("oidc/find_identity"), issuer, subject)
    return None if row is None else (row["id"], row["principal"])


async def has_identity(connection: AnyConnection, principal: int) -> bool:
    return bool(await connection.fetchval(sql("oidc/has_identity"), principal))


async def add_identity(connection: AnyConnection, issuer: str, subject: str, principal: int) -> int:
    return int(await connection.fetchval(sql("oidc/add_identity"), issuer, subject, principal))


async def confirm_identity(connection: AnyConnection, number: int) -> None:
    await connection.execute(sql("oidc/confirm_identity"), number)


async def save_refresh_token(connection: AnyConnection, number: int, sealed: Sealed, after: timedelta) -> None:
    """`after`: until the next refresh."""
    await connection.execute(
        sql("oidc/save_refresh_token"), number, sealed.key_id, sealed.wrapped_key, sealed.ciphertext, after
    )


async def drop_refresh_token(connection: AnyConnection, number: int) -> None:
    await connection.execute(sql("oidc/drop_refresh_token"), number)


async def claim_refreshes(connection: AnyConnection, issuer: str, *, limit: int) -> list[IdentityRow]:
    """Those that are due; no other server node gets them for a while."""
    rows = await connection.fetch(sql("oidc/claim_refreshes"), CLAIM_LASTS, issuer, limit)
    return [
        IdentityRow(
            id=row["id"],
            issuer=row["issuer"],
            subject=row["subject"],
            principal=row["principal"],
            sealed=Sealed(row["key_id"], row["wrapped_key"], row["sealed_token"]),
        )
        for row in rows
    ]


async def put_off_refresh(connection: AnyConnection, number: int, after: timedelta) -> None:
    await connection.execute(sql("oidc/put_off_refresh"), number, after)


async def end_provider_sessions(connection: AnyConnection, principal: int) -> list[int]:
    """The sessions of a principal that a provider's word began."""
    return [row["id"] for row in await connection.fetch(sql("oidc/end_provider_sessions"), principal)]


async def end_unconfirmed_sessions(
    connection: AnyConnection, unconfirmed: timedelta, *, rows: int
) -> list[tuple[int, int, str]]:
    """The number of each, its principal, and the name of that."""
    found = await connection.fetch(sql("oidc/end_unconfirmed_sessions"), unconfirmed, rows)
    return [(row["id"], row["principal"], row["name"]) for row in found]


async def unconfirmed_roles(connection: AnyConnection, unconfirmed: timedelta, *, rows: int) -> list[int]:
    return [row["principal"] for row in await connection.fetch(sql("oidc/unconfirmed_roles"), unconfirmed, rows)]


async def find_places(connection: AnyConnection, tenants: Collection[str], pools: Collection[str]) -> Places:
    row = await connection.fetchrow(sql("oidc/find_places"), list(tenants), list(pools))
    assert row is not None, "a select without a table gives one row"
    return Places(dict(zip(row["tenants"] or (), row["tenant_ids"] or (), strict=True)), frozenset(row["pools"] or ()))


async def name_in_use(connection: AnyConnection, name: str) -> bool:
    return bool(await connection.fetchval(sql("oidc/name_in_use"), name))


async def set_proof(connection: AnyConnection, session: int, at: datetime) -> None:
    """The user proved who they are then, not when the session began."""
    await connection.execute(sql("oidc/set_proof"), session, at)


async def signs_in_by_password(connection: AnyConnection, principal: int) -> bool:
    return bool(await connection.fetchval(sql("oidc/signs_in_by_password"), principal))


async def session_via(connection: AnyConnection, session: int) -> str | None:
    """How the session began."""
    via = await connection.fetchval(sql("oidc/session_via"), session)
    return None if via is None else str(via)
