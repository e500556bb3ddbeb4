"""Logins of programs (`rota login`): rows with the hashes of their codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network
from typing import Literal

import asyncpg

from rota.model.accounts.logins import Asked, Standing
from rota.store.database import AnyConnection
from rota.store.statements import sql

Kind = Literal["browser", "device"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRow:
    id: int
    kind: Kind
    asked: Asked
    address: str | None
    agent: str
    created_at: datetime
    principal: int | None  # who decided
    token: int | None  # that was made
    poll_seconds: int
    standing: Standing


def _login(row: asyncpg.Record | None) -> LoginRow | None:
    if row is None:
        return None
    return LoginRow(
        id=row["id"],
        kind=row["kind"],
        asked=Asked(machine=row["machine"], lasts=row["lasts"], tenant=row["tenant_name"]),
        address=row["address"],
        agent=row["agent"],
        created_at=row["created_at"],
        principal=row["principal"],
        token=row["token"],
        poll_seconds=row["poll_seconds"],
        standing=Standing(
            used=row["used"],
            expired=row["expired"],
            allowed=row["allowed"],
            too_soon=row["too_soon"],
            challenge=row["challenge"],
        ),
    )


async def add_allowed(
    connection: AnyConnection,
    *,
    code_hash: bytes,
    challenge: str,
    asked: Asked,
    principal: int,
    address: str | None,
    agent: str,
    lasts: timedelta,
) -> int:
    """A user allowed a program in a browser; `lasts`: how long its code is good."""
    return int(
        await connection.fetchval(
            sql("logins/add_allowed"),
            code_hash,
            challenge,
            asked.machine,
            asked.lasts,
            asked.tenant,
            principal,
            address,
            agent,
            lasts,
        )
    )


async def count_pending(connection: AnyConnection, network: IPv4Network | IPv6Network | None) -> tuple[int, int]:
    """Those that wait for their user: all, and those from this network. None is added until the transaction ends."""
    await connection.execute(sql("logins/lock_pending"))
    row = await connection.fetchrow(sql("logins/count_pending"), network)
    assert row is not None, "a count has a row"
    return row["everywhere"], row["here"]


async def add_device(
    connection: AnyConnection,
    *,
    code_hash: bytes,
    user_code_hash: bytes,
    asked: Asked,
    address: str | None,
    network: IPv4Network | IPv6Network | None,
    agent: str,
    poll_seconds: int,
    lasts: timedelta,
) -> int | None:
    """None: another login has the same code."""
    number = await connection.fetchval(
        sql("logins/add_device"),
        code_hash,
        user_code_hash,
        asked.machine,
        asked.lasts,
        asked.tenant,
        address,
        network,
        agent,
        poll_seconds,
        lasts,
    )
    return None if number is None else int(number)


async def find_pending(connection: AnyConnection, user_code_hash: bytes) -> LoginRow | None:
    """The login that waits for a decision under this typed code."""
    return _login(await connection.fetchrow(sql("logins/find_pending"), user_code_hash))


async def decide(
    connection: AnyConnection, user_code_hash: bytes, *, allowed: bool, principal: int, tenant: str
) -> LoginRow | None:
    """None: it was decided, has expired, or there is none."""
    return _login(await connection.fetchrow(sql("logins/decide"), user_code_hash, allowed, principal, tenant))


async def lock_login(connection: AnyConnection, code_hash: bytes, kind: Kind) -> LoginRow | None:
    """Until the transaction ends nobody else exchanges the code."""
    return _login(await connection.fetchrow(sql("logins/lock_login"), code_hash, kind))


async def use_code(connection: AnyConnection, number: int, token: int | None) -> None:
    """The code is spent; for this token, or in vain."""
    await connection.execute(sql("logins/use_code"), number, token)


async def note_poll(connection: AnyConnection, number: int, poll_seconds: int) -> None:
    """The program asked now; before the next time it waits for so long."""
    await connection.execute(sql("logins/note_poll"), number, poll_seconds)


async def revoke_named(connection: AnyConnection, *, owner: int, tenant_id: int, name: str) -> Sequence[int]:
    """The tokens that had this name, the newest last."""
    rows = await connection.fetch(sql("logins/revoke_named"), owner, tenant_id, name)
    return sorted(row["id"] for row in rows)


async def forget_logins(connection: AnyConnection, *, rows: int) -> None:
    """Deletes those that nobody can use any more."""
    await connection.execute(sql("logins/forget_logins"), rows)
