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
LISTED_DAYS = 1  # how long an absent node is listed
FIRST_PORTION = 32  # rows: their size tells how many more fit


async def read_task(connection: AnyConnection, task: int, tenant: int) -> asyncpg.Record | None:
    rows = await read_tasks(connection, [task], tenant)
    return rows[0] if rows else None


async def read_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> list[asyncpg.Record]:
    return list(await connection.fetch(sql("reading/read_tasks"), tasks, tenant, MOST_SHOWN + 1))


async def read_restricted(
    connection: AnyConnection, tasks: Sequence[int], tenant: int
) -> dict[int, tuple[str, str, str]]:
    """Name, pool and user of each task."""
    rows = await connection.fetch(sql("reading/read_restricted"), tasks, tenant)
    return {row["id"]: (row["name"], row["pool"], row["user_name"]) for row in rows}


async def read_users(connection: AnyConnection, ids: Sequence[int], tenant: int) -> dict[int, str]:
    """Whose each task, graph or array is, without those that there are not."""
    rows = await connection.fetch(sql("reading/read_users"), ids, tenant)
    return {row["id"]: row["user_name"] for row in rows}


async def read_outcomes(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> list[asyncpg.Record]:
    return list(await connection.fetch(sql("reading/read_outcomes"), tasks, tenant))


async def read_ended(
    connection: AnyConnection, tasks: Sequence[int], tenant: int, *, first: Sequence[int], most_bytes: int, most: int
) -> tuple[list[asyncpg.Record], bool]:
    """As `read_outcomes`, those of `first` before the others, and whether more have ended than were read.

    Reads in portions and stops after `most` rows or `most_bytes` of results, so that an answer is bounded.
    """
    cursor = await connection.cursor(sql("reading/read_ended"), tasks, tenant, first)
    found: list[asyncpg.Record] = []
    read_bytes, portion = 0, FIRST_PORTION
    while portion:
        rows = await cursor.fetch(portion)
        found += rows
        read_bytes += sum(len(row["result"] or "") + len(row["failure"] or "") for row in rows)
        if len(rows) < portion:
            return found, False
        average = max(read_bytes // len(found), 1)
        portion = min(max(0, most_bytes - read_bytes) // average, most - len(found))
    return found, await cursor.fetchrow() is not None


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


async def read_nodes(
    connection: AnyConnection, *, silent_seconds: float, seen_within_days: int | None = None
) -> list[asyncpg.Record]:
    """The nodes with their states: left after a goodbye, silent after `silent_seconds`, lost after a minute.

    A drain takes precedence over the state that the node reports, because an operator decided it.
    """
    return list(await connection.fetch(sql("reading/read_nodes"), silent_seconds, seen_within_days))


async def node_states(connection: AnyConnection, nodes: Sequence[int], *, silent_seconds: float) -> dict[int, str]:
    """The states of these nodes, as in `read_nodes`."""
    rows = await connection.fetch(sql("reading/node_states"), silent_seconds, nodes)
    return {row["id"]: row["state"] for row in rows}


async def count_nodes(
    connection: AnyConnection, *, silent_seconds: float, seen_within_days: int
) -> dict[tuple[str, str], int]:
    """How many nodes there are, by pool and state."""
    rows = await connection.fetch(sql("reading/count_nodes"), silent_seconds, seen_within_days)
    return {(row["pool"], row["state"]): row["nodes"] for row in rows}


async def row_counts(connection: AnyConnection) -> dict[str, int]:
    """The exact numbers of rows that are kept without a count of the table: `queue` and `dead_letters`."""
    rows = await connection.fetch(sql("reading/row_counts"))
    return {row["counted"]: row["rows"] for row in rows}


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
