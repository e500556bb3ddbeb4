"""Sessions of signed-in users: rows, so that they hold on every server node and survive its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rota.store.database import AnyConnection
from rota.store.statements import sql

Via = Literal["password", "oidc", "link"]


@dataclass(frozen=True, slots=True)
class SessionRow:
    id: int
    tenant: str
    via: Via
    created_at: datetime
    seen_at: datetime
    ends_at: datetime
    address: str | None
    agent: str


async def add_session(
    connection: AnyConnection,
    *,
    secret_hash: bytes,
    principal: int,
    tenant_id: int,
    via: Via,
    lasts: timedelta,
    address: str | None,
    agent: str,
) -> int:
    return int(
        await connection.fetchval(
            sql("accounts/add_session"), secret_hash, principal, tenant_id, via, lasts, address, agent
        )
    )


async def read_sessions(connection: AnyConnection, principal: int, *, idle: timedelta) -> list[SessionRow]:
    """Those that have not ended, newest first."""
    return [SessionRow(*row) for row in await connection.fetch(sql("accounts/read_sessions"), principal, idle)]


async def note_sign_in(connection: AnyConnection, principal: int) -> tuple[str, int] | None:
    """The name of the user, and the tenant to look at first; None: it is gone or disabled."""
    row = await connection.fetchrow(sql("accounts/note_sign_in"), principal)
    return None if row is None else (row["name"], row["tenant_id"])


async def end_session_of(connection: AnyConnection, secret_hash: bytes) -> int | None:
    """The session of this cookie; None: it has ended already, or never was."""
    found = await connection.fetchval(sql("accounts/end_session_of_hash"), secret_hash)
    return None if found is None else int(found)


async def end_sessions(
    connection: AnyConnection, principal: int, *, number: int | None = None, but: int | None = None
) -> list[int]:
    """The one with this number, or all of a principal; not `but`. Returns those that ended now."""
    rows = await connection.fetch(sql("accounts/end_sessions"), principal, but, number)
    return [row["id"] for row in rows]


async def see_session(connection: AnyConnection, number: int) -> None:
    """It is in use: it does not end for being idle."""
    await connection.execute(sql("accounts/see_session"), number)


async def prove_session(connection: AnyConnection, number: int) -> None:
    """The user proved again who they are."""
    await connection.execute(sql("accounts/prove_session"), number)


async def renew_session(connection: AnyConnection, number: int, *, secret_hash: bytes, tenant_id: int) -> None:
    """The session goes on with another secret; the one before opens nothing."""
    await connection.execute(sql("accounts/renew_session"), number, secret_hash, tenant_id)


async def session_owner(connection: AnyConnection, number: int) -> int | None:
    """Whose session it is; None: there is none that has not ended."""
    found = await connection.fetchval(sql("accounts/session_owner"), number)
    return None if found is None else int(found)


async def switch_session(connection: AnyConnection, number: int, tenant_id: int) -> None:
    """The session looks at another tenant."""
    await connection.execute(sql("accounts/switch_session"), number, tenant_id)


async def forget_sessions(connection: AnyConnection, *, rows: int) -> None:
    """Deletes those that ended long ago."""
    await connection.execute(sql("accounts/forget_sessions"), rows)
