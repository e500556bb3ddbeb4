"""Dead letters: lists them by filter, reads the history of the work, and removes them.

A list walks the index of a tenant's letters, newest first, and checks the filter on a bounded number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg
import msgspec

from rota.store.database import AnyConnection
from rota.store.graphs import members_of
from rota.store.listing import Page
from rota.store.statements import sql

WALK = 2_000  # letters examined for a page
MOST_RUNS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFilter:
    """Selects letters; None means any. `tag` is name and value, `failure` the type of the last failure."""

    name: str | None = None
    tag: tuple[str, str] | None = None
    schedule: int | None = None
    graph: int | None = None
    user: str | None = None
    reason: str | None = None
    failure: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def list_dead(
    connection: AnyConnection, tenant: int, wanted: DeadFilter, *, before: int, limit: int, walk: int = WALK
) -> Page:
    """One page. A short page may still have a next one."""
    among = None if wanted.graph is None else await members_of(connection, wanted.graph, tenant)
    tag = None if wanted.tag is None else msgspec.json.encode(dict([wanted.tag])).decode()
    rows = await connection.fetch(
        sql("dead_letters/list_dead"),
        tenant,
        before,
        walk,
        limit + 1,
        among,
        wanted.name,
        tag,
        wanted.schedule,
        wanted.reason,
        wanted.failure,
        wanted.since,
        wanted.until,
        wanted.user,
    )
    if len(rows) > limit:
        return Page(list(rows[:limit]), rows[limit - 1]["id"])
    stop = await connection.fetchval(sql("dead_letters/last_examined"), tenant, before, among, walk - 1)
    return Page(list(rows), stop)


async def discard_dead(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> list[int]:
    """Removes the named dead letters."""
    rows = await connection.fetch(sql("dead_letters/discard_dead"), tenant, tasks)
    return sorted(row["task"] for row in rows)


async def read_letter(connection: AnyConnection, task: int, tenant: int) -> asyncpg.Record | None:
    return await connection.fetchrow(sql("dead_letters/read_letter"), task, tenant)


async def read_runs(connection: AnyConnection, task: int, tenant: int) -> list[asyncpg.Record]:
    """All runs linked with this one by reruns, oldest first."""
    return list(await connection.fetch(sql("dead_letters/read_runs"), task, tenant, MOST_RUNS))
