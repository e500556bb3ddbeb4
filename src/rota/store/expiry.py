"""Drops tasks at their start-by time if their owners chose so (R15).

Every node may do it at any time: a node takes the rows that it locks, and a later start finds no row.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.statements import sql

MOST_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Expired:
    tasks: list[tuple[int, int]]  # (task, pool)
    dependent_pools: set[int]  # with dependents to release or skip


async def expire_tasks(connection: AnyConnection, at_most: int = MOST_AT_ONCE) -> Expired:
    """One batch in one transaction: ends the tasks, writes their events, and marks the edges of their dependents."""
    async with connection.transaction():
        rows = await connection.fetch(sql("expiry/expire_tasks"), at_most)
        children = []
        if rows:
            children = await connection.fetch(
                sql("settlement/resolve_edges"), [row["id"] for row in rows], State.EXPIRED
            )
    return Expired([(row["id"], row["pool"]) for row in rows], {row["child_pool"] for row in children})
