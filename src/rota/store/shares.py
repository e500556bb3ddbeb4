"""The charges of tenants in a pool, stored so that a new leader continues with them."""

from __future__ import annotations

from rota.model.clock import to_us
from rota.store.database import AnyConnection
from rota.store.statements import sql


async def read_shares(connection: AnyConnection, pool: int) -> tuple[dict[int, int], int]:
    """The charges by tenant, and when they were saved (µs)."""
    rows = await connection.fetch(sql("shares/read_shares"), pool)
    saved_us = max((to_us(row["saved_at"]) for row in rows), default=0)
    return {row["tenant"]: int(row["charged"]) for row in rows}, saved_us


async def save_shares(connection: AnyConnection, pool: int, charged: dict[int, int]) -> None:
    """Replaces the charges of all tenants; tenants without a charge are deleted."""
    async with connection.transaction():
        await connection.execute(sql("shares/drop_other_shares"), pool, list(charged))
        await connection.execute(
            sql("shares/save_shares"), pool, list(charged), [float(amount) for amount in charged.values()]
        )
