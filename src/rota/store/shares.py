"""What tenants have been charged in a pool, kept so that a new leader is as fair as the last one."""

from __future__ import annotations

from rota.model.clock import to_us
from rota.store.database import AnyConnection


async def read_shares(connection: AnyConnection, pool: int) -> tuple[dict[int, int], int]:
    """What tenants had been charged, and when that was saved (microseconds)."""
    rows = await connection.fetch("select tenant, charged, saved_at from shares where pool = $1", pool)
    saved_us = max((to_us(row["saved_at"]) for row in rows), default=0)
    return {row["tenant"]: int(row["charged"]) for row in rows}, saved_us


async def save_shares(connection: AnyConnection, pool: int, charged: dict[int, int]) -> None:
    """All at once, with one time for all: tenants no longer charged anything are forgotten."""
    async with connection.transaction():
        await connection.execute("delete from shares where pool = $1 and tenant <> all($2)", pool, list(charged))
        await connection.execute(
            """insert into shares (pool, tenant, charged) select $1, * from unnest($2::integer[], $3::float8[])
                on conflict (pool, tenant) do update set charged = excluded.charged, saved_at = now()""",
            pool, list(charged), [float(amount) for amount in charged.values()],
        )  # fmt: skip
