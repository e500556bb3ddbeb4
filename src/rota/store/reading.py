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
    return await connection.fetchrow(sql("reading/read_task"), task, tenant)


async def read_outcomes(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> list[asyncpg.Record]:
    return list(await connection.fetch(sql("reading/read_outcomes"), tasks, tenant))


async def known_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> set[int]:
    rows = await connection.fetch(sql("reading/known_tasks"), tasks, tenant)
    return {row["id"] for row in rows}


async def read_attempts(connection: AnyConnection, task: int, tenant: int) -> list[asyncpg.Record]:
    return list(await connection.fetch(sql("reading/read_attempts"), task, tenant))


async def latest_attempt(connection: AnyConnection, task: int, tenant: int) -> int | None:
    """The number of the latest attempt that ran or runs; None when the task is unknown, 0 when none did."""
    row = await connection.fetchrow(sql("reading/latest_attempt"), task, tenant)
    return None if row is None else max(row["live"] or 0, row["ended"] or 0)


async def read_usage(connection: AnyConnection, tenant: int, *, up_to: int) -> asyncpg.Record:
    """What a tenant has waiting and running, counted up to a bound."""
    row = await connection.fetchrow(sql("reading/read_usage"), tenant, up_to)
    assert row is not None
    return row


async def read_nodes(connection: AnyConnection, *, seen_within_days: int | None = None) -> list[asyncpg.Record]:
    """One that said goodbye has left; one that no leader has heard of for a minute is lost.

    A drain comes before what the node says of itself: it is somebody's will, and holds longer.
    """
    return list(await connection.fetch(sql("reading/read_nodes"), seen_within_days))


async def table_sizes(connection: AnyConnection) -> dict[str, int]:
    rows = await connection.fetch(sql("reading/table_sizes"))
    return {row["relname"]: row["rows"] for row in rows}


async def database_now(connection: AnyConnection) -> datetime:
    now: datetime = await connection.fetchval(sql("reading/database_now"))
    return now


async def database_clock(connection: AnyConnection) -> datetime:
    """The time now, not that of the transaction's beginning."""
    now: datetime = await connection.fetchval(sql("reading/database_clock"))
    return now


async def check_reachable(connection: AnyConnection) -> None:
    await connection.fetchval(sql("reading/check_reachable"))


async def ended_tasks(connection: AnyConnection, tasks: Sequence[int]) -> list[tuple[int, State]]:
    """The tasks of the list that have ended, of any tenant, with their final states."""
    rows = await connection.fetch(sql("reading/ended_tasks"), tasks)
    return [(row["task"], State(row["state"])) for row in rows]


async def place_in_queue(connection: AnyConnection, task: int, tenant: int, *, up_to: int) -> int | None:
    """How many of the tenant's ready tasks come before it; None when there are more, or it waits no more."""
    row = await connection.fetchrow(sql("reading/place_in_queue"), task, tenant, up_to)
    return None if row is None or row["looked_at"] >= up_to else int(row["ready"])


async def blocked_by(connection: AnyConnection, task: int, *, limit: int) -> tuple[list[tuple[int, State | None]], int]:
    """The tasks it still waits for, with their states, and how many there are in all."""
    rows = await connection.fetch(sql("reading/blocked_by"), task, limit)
    found = [(row["parent"], None if row["state"] is None else State(row["state"])) for row in rows]
    return found, rows[0]["waits"] if rows else 0


async def lane_names(connection: AnyConnection) -> dict[int, str]:
    return {row["rank"]: row["name"] for row in await connection.fetch(sql("reading/lane_names"))}


async def tenant_names(connection: AnyConnection, tenants: Sequence[int]) -> dict[int, str]:
    rows = await connection.fetch(sql("reading/tenant_names"), tenants)
    return {row["id"]: row["name"] for row in rows}


async def node_names(connection: AnyConnection, nodes: Sequence[int]) -> dict[int, str]:
    rows = await connection.fetch(sql("reading/node_names"), nodes)
    return {row["id"]: row["name"] for row in rows}
