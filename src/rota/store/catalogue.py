"""Tiers, categories, lanes and pools: small tables that operators change and every server node reads each second."""

from __future__ import annotations

from dataclasses import replace

import asyncpg

from rota.model.catalogue import Category, LaneRule, PoolRule, Tier
from rota.store.database import AnyConnection
from rota.store.statements import sql

# ---- tiers ---------------------------------------------------------------------------------------------------------


async def read_tiers(connection: AnyConnection) -> list[Tier]:
    rows = await connection.fetch(sql("catalogue/read_tiers"))
    return [Tier(*row) for row in rows]


async def save_tier(connection: AnyConnection, tier: Tier) -> None:
    await connection.execute(
        sql("catalogue/save_tier"),
        tier.name,
        tier.cpu_milli,
        tier.memory_bytes,
        tier.disk_bytes,
        tier.iops,
        tier.gpus,
        tier.bandwidth_kbit,
    )


async def remove_tier(connection: AnyConnection, name: str) -> list[str]:
    """Removes the tier unless plans name it. Returns these plans; one that allows all tiers names none."""
    async with connection.transaction():
        # Plans are few; with all of them locked, none can begin to name the tier.
        rows = await connection.fetch(sql("catalogue/lock_plans"))
        plans = [row["name"] for row in rows if name in (row["tiers"] or ())]
        if not plans:
            await connection.execute(sql("catalogue/remove_tier"), name)
    return plans


# ---- categories ----------------------------------------------------------------------------------------------------


async def read_categories(connection: AnyConnection) -> list[Category]:
    rows = await connection.fetch(sql("catalogue/read_categories"))
    return [Category(*row) for row in rows]


async def save_category(connection: AnyConnection, category: Category) -> None:
    await connection.execute(
        sql("catalogue/save_category"),
        category.name,
        category.tolerance_ms,
        category.lane,
        category.cap_ms,
        category.isolation,
    )


async def remove_category(connection: AnyConnection, name: str) -> bool:
    """False: there is no such category. Tasks keep the values they took from it."""
    removed = await connection.fetchval(sql("catalogue/remove_category"), name)
    return removed is not None


# ---- lanes ---------------------------------------------------------------------------------------------------------


async def read_lanes(connection: AnyConnection) -> list[LaneRule]:
    rows = await connection.fetch(sql("catalogue/read_lanes"))
    return [LaneRule(*row) for row in rows]


async def add_lane(connection: AnyConnection, lane: LaneRule) -> bool:
    """False: the name or the number is taken."""
    added = await connection.fetchval(
        sql("catalogue/add_lane"), lane.number, lane.name, lane.level, lane.gated, lane.promotes
    )
    return added is not None


async def save_lane(connection: AnyConnection, lane: LaneRule) -> None:
    await connection.execute(sql("catalogue/save_lane"), lane.name, lane.level, lane.gated, lane.promotes)


# ---- pools ---------------------------------------------------------------------------------------------------------


async def read_pools(connection: AnyConnection) -> list[PoolRule]:
    return [_pool(row) for row in await connection.fetch(sql("catalogue/read_pools"))]


async def rules_version(connection: AnyConnection, pool: int) -> int:
    """The version of the rules that the pool's leader decides by. Read before the rules, they are at least as new."""
    version: int | None = await connection.fetchval(sql("catalogue/rules_version"), pool)
    return -1 if version is None else version


def _pool(row: asyncpg.Record) -> PoolRule:
    *columns, isolations, identified_nodes = row
    return replace(PoolRule(*columns), isolations=tuple(isolations), identified_nodes=identified_nodes)


async def add_pool(connection: AnyConnection, pool: PoolRule) -> PoolRule | None:
    """Returns the pool with its number. None: the name is taken."""
    row = await connection.fetchrow(
        sql("catalogue/add_pool"),
        pool.name,
        pool.elastic,
        pool.peak_percent,
        pool.urgent_kept_percent,
        pool.running_tasks,
        list(pool.isolations),
        pool.identified_nodes,
    )
    return None if row is None else _pool(row)


async def pause_pool(connection: AnyConnection, name: str, paused: bool) -> PoolRule | None:
    """None: there is no such pool. Its leader notices when it next reads the rules."""
    row = await connection.fetchrow(sql("catalogue/pause_pool"), name, paused)
    return None if row is None else _pool(row)


async def save_pool(connection: AnyConnection, pool: PoolRule) -> None:
    await connection.execute(
        sql("catalogue/save_pool"),
        pool.name,
        pool.elastic,
        pool.peak_percent,
        pool.urgent_kept_percent,
        pool.running_tasks,
        list(pool.isolations),
        pool.identified_nodes,
    )
