"""Reads for the API: tasks, attempts, usage, nodes, names.

Functions with a `tenant` take a connection that row-level security confines to it, and name the tenant again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.dependents import MOST_SHOWN
from rota.store.statements import sql

NEWEST = 2**63 - 1


async def read_task(connection: AnyConnection, task: int, tenant: int) -> asyncpg.Record | None:
    return await connection.fetchrow(sql("reading/read_task"), task, tenant, MOST_SHOWN + 1)


async def read_outcomes(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> list[asyncpg.Record]:
    return list(await connection.fetch(sql("reading/read_outcomes"), tasks, tenant))


async def known_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> set[int]:
    rows = await connection.fetch(sql("reading/known_tasks"), tasks, tenant)
    return {row["id"] for row in rows}


async def read_attempts(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> list[asyncpg.Record]:
    """The attempts of each task, oldest first."""
    return list(await connection.fetch(sql("reading/read_attempts"), tasks, tenant))


async def latest_attempt(connection: AnyConnection, task: int, tenant: int) -> int | None:
    """The number of the latest attempt; 0: none has run. None: there is no such task."""
    row = await connection.fetchrow(sql("reading/latest_attempt"), task, tenant)
    return None if row is None else max(row["live"] or 0, row["ended"] or 0)


async def read_usage(connection: AnyConnection, tenant: int, *, up_to: int) -> asyncpg.Record:
    """Counts and resources of a tenant's waiting and running tasks, counted up to a bound."""
    row = await connection.fetchrow(sql("reading/read_usage"), tenant, up_to)
    assert row is not None
    return row


async def read_numbers(connection: AnyConnection, tenant: int) -> asyncpg.Record:
    """How much a tenant has of what its plan limits in number, and the bytes it stores."""
    row = await connection.fetchrow(sql("reading/read_numbers"), tenant)
    assert row is not None
    return row


async def read_nodes(connection: AnyConnection, *, seen_within_days: int | None = None) -> list[asyncpg.Record]:
    """The nodes with their states: left after a goodbye, lost after a minute of silence.

    A drain takes precedence over the state that the node reports, because an operator decided it.
    """
    return list(await connection.fetch(sql("reading/read_nodes"), seen_within_days))


async def table_sizes(connection: AnyConnection) -> dict[str, int]:
    rows = await connection.fetch(sql("reading/table_sizes"))
    return {row["relname"]: row["rows"] for row in rows}


async def database_now(connection: AnyConnection) -> datetime:
    now: datetime = await connection.fetchval(sql("reading/database_now"))
    return now


async def database_clock(connection: AnyConnection) -> datetime:
    """The present time, not the start of the transaction."""
    now: datetime = await connection.fetchval(sql("reading/database_clock"))
    return now


async def check_reachable(connection: AnyConnection) -> None:
    await connection.fetchval(sql("reading/check_reachable"))


async def ended_tasks(connection: AnyConnection, tasks: Sequence[int]) -> list[tuple[int, State]]:
    """The tasks of the list that have ended, of any tenant, with their final states."""
    rows = await connection.fetch(sql("reading/ended_tasks"), tasks)
    return [(row["task"], State(row["state"])) for row in rows]


async def queue_position(connection: AnyConnection, task: int, tenant: int, *, up_to: int) -> int | None:
    """How many of the tenant's ready tasks precede it. None: more than `up_to`, or it no longer waits."""
    row = await connection.fetchrow(sql("reading/queue_position"), task, tenant, up_to)
    return None if row is None or row["looked_at"] >= up_to else int(row["ready"])


async def blocked_by(connection: AnyConnection, task: int, *, limit: int) -> tuple[list[tuple[int, State | None]], int]:
    """The unfinished parents of a task with their states, and their total number."""
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
