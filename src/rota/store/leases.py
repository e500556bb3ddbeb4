"""Leases as rows: acquire, renew, release, fence. They expire by the database's clock; see `cluster.leases`."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from rota.store.database import AnyConnection
from rota.store.queue import Fence
from rota.store.statements import sql


async def acquire_lease(
    connection: AnyConnection, pool: int, holder: UUID, *, seconds: float, above: int = 0
) -> int | None:
    """The new epoch if this holder won the pool, else None. `above`: the highest epoch that was reported."""
    await connection.fetch(sql("leases/end_old_leader"), pool, holder)
    epoch = await connection.fetchval(sql("leases/acquire_lease"), pool, holder, timedelta(seconds=seconds), above)
    return None if epoch is None else int(epoch)


async def renew_lease(connection: AnyConnection, pool: int, epoch: int, holder: UUID, *, seconds: float) -> bool:
    renewed = await connection.fetchval(sql("leases/renew_lease"), pool, epoch, holder, timedelta(seconds=seconds))
    return renewed is not None


async def release_lease(connection: AnyConnection, pool: int, epoch: int, holder: UUID) -> None:
    await connection.execute(sql("leases/release_lease"), pool, epoch, holder)


async def hold_fence(connection: AnyConnection, fence: Fence) -> bool:
    """Locks the leader's term until the transaction ends. False: the term is over."""
    return await connection.fetchval(sql("leases/hold_fence"), fence.pool, fence.epoch, fence.holder) is not None


async def end_backend(connection: AnyConnection, pid: int) -> bool:
    """Ends the backend of a fenced connection. False: it is gone."""
    return bool(await connection.fetchval(sql("leases/end_backend"), pid))
