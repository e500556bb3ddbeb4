"""Reads for people and programs: one task, many, attempts, dead letters, nodes.

Every function takes a connection that row-level security has confined to the tenant, and names the tenant again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.statements import sql

NEWEST = 2**63 - 1


async def read_task(connection: AnyConnection, task: int, tenant: int) -> asyncpg.Record | None:
    return await connection.fetchrow(sql("read_task"), task, tenant)


async def read_outcomes(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> list[asyncpg.Record]:
    return list(await connection.fetch(sql("read_outcomes"), tasks, tenant))


async def known_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> set[int]:
    rows = await connection.fetch("select id from tasks where id = any($1) and tenant = $2", tasks, tenant)
    return {row["id"] for row in rows}


async def read_attempts(connection: AnyConnection, task: int, tenant: int) -> list[asyncpg.Record]:
    return list(await connection.fetch(sql("read_attempts"), task, tenant))


async def latest_attempt(connection: AnyConnection, task: int, tenant: int) -> int | None:
    """The number of the latest attempt that ran or runs; None when the task is unknown, 0 when none did."""
    row = await connection.fetchrow(
        """select tasks.id, queue.attempt as live,
                (select max(number) from attempts where attempts.task = $1) as ended
            from tasks left join queue on queue.id = tasks.id where tasks.id = $1 and tasks.tenant = $2""",
        task, tenant,
    )  # fmt: skip
    return None if row is None else max(row["live"] or 0, row["ended"] or 0)


async def read_usage(connection: AnyConnection, tenant: int, *, up_to: int) -> asyncpg.Record:
    """What a tenant has waiting and running, counted up to a bound."""
    row = await connection.fetchrow(
        """with counted as (
                select queue.state, queue.shape from pools join queue on queue.pool = pools.id and queue.tenant = $1
                limit $2)
            select count(*) filter (where state <> 4) as waiting, count(*) filter (where state = 4) as running,
                coalesce(sum(shapes.cpu_milli) filter (where state = 4), 0)::bigint as cpu_milli,
                coalesce(sum(shapes.memory_bytes) filter (where state = 4), 0)::bigint as memory_bytes
            from counted join shapes on shapes.id = counted.shape""",
        tenant, up_to,
    )  # fmt: skip
    assert row is not None
    return row


async def read_nodes(connection: AnyConnection, *, seen_within_days: int | None = None) -> list[asyncpg.Record]:
    """One that said goodbye has left; one that no leader has heard of for a minute is lost.

    A drain comes before what the node says of itself: it is somebody's will, and holds longer.
    """
    return list(
        await connection.fetch(
            """select nodes.id, nodes.name, pools.name as pool, nodes.capacity, nodes.labels,
                    case when nodes.left_at >= nodes.seen_at then 'left'
                        when nodes.seen_at < now() - interval '1 minute' then 'lost'
                        when nodes.state = 'up' then coalesce(nodes.closed, 'up') else nodes.state end as state,
                    nodes.state = 'draining' as draining,
                    nodes.capabilities, nodes.seen_at, nodes.version,
                    case when nodes.state = 'draining' then nodes.drain_by end as drain_by
                from nodes join pools on pools.id = nodes.pool
                where nodes.state <> 'removed'
                    and ($1::integer is null or nodes.seen_at > now() - make_interval(days => $1))
                order by nodes.id""",
            seen_within_days,
        )
    )


async def table_sizes(connection: AnyConnection) -> dict[str, int]:
    rows = await connection.fetch(
        """select relname, greatest(reltuples, 0)::bigint as rows from pg_class
            where relname in ('queue', 'dead_letters') and relkind = 'r'"""
    )
    return {row["relname"]: row["rows"] for row in rows}


async def database_now(connection: AnyConnection) -> datetime:
    now: datetime = await connection.fetchval("select now()")
    return now


async def place_in_queue(connection: AnyConnection, task: int, tenant: int, *, up_to: int) -> int | None:
    """How many of the tenant's ready tasks come before it; None when there are more, or it waits no more."""
    row = await connection.fetchrow(sql("place_in_queue"), task, tenant, up_to)
    return None if row is None or row["looked_at"] >= up_to else int(row["ready"])


async def blocked_by(connection: AnyConnection, task: int, *, limit: int) -> tuple[list[tuple[int, State | None]], int]:
    """The tasks it still waits for, with their states, and how many there are in all."""
    rows = await connection.fetch(sql("blocked_by"), task, limit)
    found = [(row["parent"], None if row["state"] is None else State(row["state"])) for row in rows]
    return found, rows[0]["waits"] if rows else 0


async def lane_names(connection: AnyConnection) -> dict[int, str]:
    return {row["rank"]: row["name"] for row in await connection.fetch("select rank, name from lanes")}


async def tenant_names(connection: AnyConnection, tenants: Sequence[int]) -> dict[int, str]:
    rows = await connection.fetch("select id, name from tenants where id = any($1)", tenants)
    return {row["id"]: row["name"] for row in rows}


async def node_names(connection: AnyConnection, nodes: Sequence[int]) -> dict[int, str]:
    rows = await connection.fetch("select id, name from nodes where id = any($1)", nodes)
    return {row["id"]: row["name"] for row in rows}
