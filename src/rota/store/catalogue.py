"""Tiers, categories, lanes, pools: small tables that operators change and every server node reads again each second."""

from __future__ import annotations

from dataclasses import replace

import asyncpg

from rota.model.catalogue import Category, LaneRule, PoolRule, Tier
from rota.store.database import AnyConnection

_POOL = "id, name, elastic, peak_percent, urgent_kept_percent, running_tasks, paused, isolations"


# ---- tiers ---------------------------------------------------------------------------------------------------------


async def read_tiers(connection: AnyConnection) -> list[Tier]:
    rows = await connection.fetch(
        """select name, cpu_milli, memory_bytes, disk_bytes, iops, gpus, bandwidth_kbit from tiers
            order by cpu_milli, memory_bytes, name"""
    )
    return [Tier(*row) for row in rows]


async def save_tier(connection: AnyConnection, tier: Tier) -> None:
    await connection.execute(
        """insert into tiers (name, cpu_milli, memory_bytes, disk_bytes, iops, gpus, bandwidth_kbit)
            values ($1, $2, $3, $4, $5, $6, $7)
            on conflict (name) do update set cpu_milli = excluded.cpu_milli, memory_bytes = excluded.memory_bytes,
                disk_bytes = excluded.disk_bytes, iops = excluded.iops, gpus = excluded.gpus,
                bandwidth_kbit = excluded.bandwidth_kbit""",
        tier.name, tier.cpu_milli, tier.memory_bytes, tier.disk_bytes, tier.iops, tier.gpus, tier.bandwidth_kbit,
    )  # fmt: skip


async def remove_tier(connection: AnyConnection, name: str) -> list[str]:
    """The plans that name it: while there are any, it stays."""
    async with connection.transaction():
        # Plans are few; with all of them locked, none can take the tier up while we look.
        rows = await connection.fetch("select name, tiers from plans order by name for share")
        plans = [row["name"] for row in rows if name in row["tiers"]]
        if not plans:
            await connection.execute("delete from tiers where name = $1", name)
    return plans


# ---- categories ----------------------------------------------------------------------------------------------------


async def read_categories(connection: AnyConnection) -> list[Category]:
    rows = await connection.fetch("select name, tolerance_ms, lane, cap_ms, isolation from categories order by name")
    return [Category(*row) for row in rows]


async def save_category(connection: AnyConnection, category: Category) -> None:
    await connection.execute(
        """insert into categories (name, tolerance_ms, lane, cap_ms, isolation) values ($1, $2, $3, $4, $5)
            on conflict (name) do update set tolerance_ms = excluded.tolerance_ms, lane = excluded.lane,
                cap_ms = excluded.cap_ms, isolation = excluded.isolation""",
        category.name, category.tolerance_ms, category.lane, category.cap_ms, category.isolation,
    )  # fmt: skip


async def remove_category(connection: AnyConnection, name: str) -> bool:
    """Tasks keep what they took from it."""
    removed = await connection.fetchval("delete from categories where name = $1 returning name", name)
    return removed is not None


# ---- lanes ---------------------------------------------------------------------------------------------------------


async def read_lanes(connection: AnyConnection) -> list[LaneRule]:
    rows = await connection.fetch("select rank, name, level, gated, promotes from lanes order by level, rank")
    return [LaneRule(*row) for row in rows]


async def add_lane(connection: AnyConnection, lane: LaneRule) -> bool:
    """False when the name or the number is taken."""
    added = await connection.fetchval(
        """insert into lanes (rank, name, level, gated, promotes) values ($1, $2, $3, $4, $5)
            on conflict do nothing returning rank""",
        lane.number, lane.name, lane.level, lane.gated, lane.promotes,
    )  # fmt: skip
    return added is not None


async def save_lane(connection: AnyConnection, lane: LaneRule) -> None:
    await connection.execute(
        "update lanes set level = $2, gated = $3, promotes = $4 where name = $1",
        lane.name, lane.level, lane.gated, lane.promotes,
    )  # fmt: skip


# ---- pools ---------------------------------------------------------------------------------------------------------


async def read_pools(connection: AnyConnection) -> list[PoolRule]:
    return [_pool(row) for row in await connection.fetch(f"select {_POOL} from pools order by id")]


def _pool(row: asyncpg.Record) -> PoolRule:
    *columns, isolations = row
    return replace(PoolRule(*columns), isolations=tuple(isolations))


async def add_pool(connection: AnyConnection, pool: PoolRule) -> PoolRule | None:
    """With its number; None when the name is taken."""
    row = await connection.fetchrow(
        f"""insert into pools (name, elastic, peak_percent, urgent_kept_percent, running_tasks, isolations)
            values ($1, $2, $3, $4, $5, $6) on conflict (name) do nothing returning {_POOL}""",
        pool.name, pool.elastic, pool.peak_percent, pool.urgent_kept_percent, pool.running_tasks,
        list(pool.isolations),
    )  # fmt: skip
    return None if row is None else _pool(row)


async def pause_pool(connection: AnyConnection, name: str, paused: bool) -> PoolRule | None:
    """None: there is no such pool. Its leader hears of it by its next look at the rules."""
    row = await connection.fetchrow(f"update pools set paused = $2 where name = $1 returning {_POOL}", name, paused)
    return None if row is None else _pool(row)


async def save_pool(connection: AnyConnection, pool: PoolRule) -> None:
    await connection.execute(
        """update pools set elastic = $2, peak_percent = $3, urgent_kept_percent = $4, running_tasks = $5,
            isolations = $6 where name = $1""",
        pool.name, pool.elastic, pool.peak_percent, pool.urgent_kept_percent, pool.running_tasks,
        list(pool.isolations),
    )  # fmt: skip
