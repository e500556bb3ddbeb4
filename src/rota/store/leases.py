"""Leases in SQL: acquire, renew, release. Expiry is the database's clock; what a holder may trust is its own affair."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from rota.store.database import AnyConnection
from rota.store.statements import sql


async def acquire_lease(
    connection: AnyConnection, pool: int, holder: UUID, *, seconds: float, above: int = 0
) -> int | None:
    """The new epoch if we won the pool, else None. `above` is the highest epoch anybody has reported."""
    await connection.fetch(sql("end_old_leader"), pool, holder)
    epoch = await connection.fetchval(sql("acquire_lease"), pool, holder, timedelta(seconds=seconds), above)
    return None if epoch is None else int(epoch)


async def renew_lease(connection: AnyConnection, pool: int, epoch: int, holder: UUID, *, seconds: float) -> bool:
    renewed = await connection.fetchval(sql("renew_lease"), pool, epoch, holder, timedelta(seconds=seconds))
    return renewed is not None


async def release_lease(connection: AnyConnection, pool: int, epoch: int, holder: UUID) -> None:
    await connection.execute(sql("release_lease"), pool, epoch, holder)
