"""Worker keys: what operators give to machines so that these may join a pool as nodes, some times, for some time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from rota.store.database import AnyConnection
from rota.store.statements import sql


@dataclass(frozen=True, slots=True)
class WorkerKeyRow:
    id: int
    public_id: str
    pool: str
    uses: int
    used: int
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked_at: datetime | None
    used_at: datetime | None
    used_from: str | None
    state: str  # valid, used up, expired or revoked


@dataclass(frozen=True, slots=True)
class LockedWorkerKey:
    row: WorkerKeyRow
    secret_hash: bytes


async def add_worker_key(
    connection: AnyConnection,
    *,
    public_id: str,
    secret_hash: bytes,
    pool: str,
    uses: int,
    lasts: timedelta,
    by: str,
) -> int | None:
    """Its number. None: there is no such pool."""
    number: int | None = await connection.fetchval(
        sql("worker_keys/add_worker_key"), public_id, secret_hash, pool, uses, lasts, by
    )
    return number


async def read_worker_keys(
    connection: AnyConnection, pools: Collection[str] | None, *, number: int | None = None
) -> list[WorkerKeyRow]:
    """The newest of these pools, of all for None; or the one with this number."""
    given = None if pools is None else sorted(pools)
    return [_row(row) for row in await connection.fetch(sql("worker_keys/read_worker_keys"), given, number)]


async def lock_worker_key(connection: AnyConnection, public_id: str) -> LockedWorkerKey | None:
    """In a transaction: nobody else takes a use of it before this ends."""
    row = await connection.fetchrow(sql("worker_keys/lock_worker_key"), public_id)
    return None if row is None else LockedWorkerKey(_row(row), row["secret_hash"])


async def take_use(connection: AnyConnection, number: int, address: str | None) -> None:
    """Of a locked key that has one left."""
    await connection.execute(sql("worker_keys/take_use"), number, address)


async def revoke_worker_key(connection: AnyConnection, number: int) -> bool:
    """False: it is revoked already."""
    return await connection.fetchval(sql("worker_keys/revoke_worker_key"), number) is not None


async def forget_worker_keys(connection: AnyConnection, *, rows: int) -> None:
    """Deletes keys that ended a month ago; the audit log has who made them and who joined."""
    await connection.execute(sql("worker_keys/forget_worker_keys"), rows)


def _row(row: asyncpg.Record) -> WorkerKeyRow:
    return WorkerKeyRow(*(row[name] for name in WorkerKeyRow.__dataclass_fields__))
