"""Lists of a tenant's tasks, newest first, by whatever they are asked for. Pages stay right while tasks come and end.

Each question has one driver, an index that gives candidates in the order of ids: a graph, a name, a schedule or a
tag; for some states the final rows and the queue; else all of the tenant's. Everything else is checked on the
candidates, of which a page looks at a bounded number: a page that found little says how far it looked, and the next
goes on from there. Every page is quick, however rare the thing asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from rota.model.task import LIVE, State
from rota.store.database import AnyConnection
from rota.store.statements import sql

WALK = 2_000  # candidates a page looks at
ID_SLACK = timedelta(minutes=5)  # ids are taken in blocks: a later one may be a little older


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks; None means any. `tag` is JSON."""

    states: Sequence[State] = tuple(State)
    name: str | None = None
    tag: str | None = None
    schedule: int | None = None
    graph: int | None = None
    nodes: Sequence[int] | None = None  # a name may be used in several pools
    user: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    without_arrays: bool = False  # their tasks are shown as one elsewhere


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[asyncpg.Record]
    next: int | None  # go on below this id; None: that was all


async def list_tasks(
    connection: AnyConnection,
    tenant: int,
    wanted: TaskFilter,
    *,
    before: int,
    limit: int,
    among: Sequence[int] | None = None,
    walk: int = WALK,
) -> Page:
    """One page. `among`: look at these live ones only."""
    low, before = await _id_bounds(connection, tenant, wanted, before)
    any_state = len(wanted.states) == len(State)
    chosen = (wanted.name, wanted.schedule, wanted.tag, wanted.graph)
    if any_state or any(one is not None for one in chosen):
        rows, stops = await _chosen(connection, tenant, wanted, before, low, limit, walk)
    else:
        rows, stops = await _by_state(connection, tenant, wanted, before, low, limit, walk, among)
    latest = {row["id"]: row for row in rows}  # one that ended between two statements came twice: it has ended
    cut = max(stops, default=None)
    found = [latest[number] for number in sorted(latest, reverse=True) if cut is None or number >= cut]
    if len(found) > limit:
        return Page(found[:limit], found[limit - 1]["id"])
    return Page(found, cut)


async def _id_bounds(connection: AnyConnection, tenant: int, wanted: TaskFilter, before: int) -> tuple[int, int]:
    low = 0
    if wanted.since is not None:
        low = await connection.fetchval("select task_id_at($1, $2)", tenant, wanted.since - ID_SLACK) or 0
    if wanted.until is not None:
        last = await connection.fetchval("select task_id_at($1, $2)", tenant, wanted.until + ID_SLACK) or 0
        before = min(before, last + 1)
    return low, before


async def _by_state(
    connection: AnyConnection,
    tenant: int,
    wanted: TaskFilter,
    before: int,
    low: int,
    limit: int,
    walk: int,
    among: Sequence[int] | None,
) -> tuple[list[asyncpg.Record], list[int]]:
    """Each final state along its own index, the live ones from the queue."""
    checks = (wanted.nodes, wanted.user, wanted.since, wanted.until)
    rows: list[asyncpg.Record] = []
    stops: list[int] = []
    live = [state for state in wanted.states if state in LIVE]
    if live and among is None:
        rows += await connection.fetch(
            sql("list_live"), tenant, before, live, *checks, limit + 1, wanted.without_arrays
        )
    elif live:
        rows += await connection.fetch(sql("list_live_among"), tenant, before, live, *checks, limit + 1, among)
    for state in wanted.states:
        if not state.terminal:
            continue
        found = await connection.fetch(
            sql("list_ended"), tenant, before, state, *checks, walk, low, limit + 1, wanted.without_arrays
        )  # fmt: skip
        rows += found
        if len(found) <= limit and checks != (None,) * len(checks):
            stop = await connection.fetchval(
                """select task from attempts where tenant = $1 and state = $3 and state > 0 and task < $2 and task > $4
                    order by task desc offset $5 limit 1""",
                tenant, before, state, low, walk - 1,
            )  # fmt: skip
            stops += [stop] if stop is not None else []
    return rows, stops


# The condition each driver leads with. A tag is looked for among the newest first, where a common one is found at once;
# a rare one is then cheap to find by its own index.
_NAME = "tasks.name = $11"
_SCHEDULE = "tasks.schedule = $11"
_ANY = "$11::text is null"
_AMONG = "tasks.id = any($11::bigint[])"


async def _chosen(
    connection: AnyConnection, tenant: int, wanted: TaskFilter, before: int, low: int, limit: int, walk: int
) -> tuple[list[asyncpg.Record], list[int]]:
    if wanted.graph is not None:
        members = await connection.fetch(
            """select task from graph_tasks where graph = $1 and tenant = $2 and task < $3 and task > $4
                order by task desc limit $5""",
            wanted.graph, tenant, before, low, walk,
        )  # fmt: skip
        ids = [row["task"] for row in members]
        rows, _ = await _drive(connection, tenant, wanted, before, low, limit, walk, _AMONG, ids)
        return rows, ids[-1:] if len(ids) == walk and len(rows) <= limit else []
    if wanted.name is not None:
        return await _drive(connection, tenant, wanted, before, low, limit, walk, _NAME, wanted.name)
    if wanted.schedule is not None:
        return await _drive(connection, tenant, wanted, before, low, limit, walk, _SCHEDULE, wanted.schedule)
    rows, stops = await _drive(connection, tenant, wanted, before, low, limit, walk, _ANY, None)
    if not stops or wanted.tag is None:
        return rows, stops
    # Nothing but the tags' own index can serve this: left free, the planner walks the tenant's tasks to their end.
    await connection.fetchval("select set_config('enable_seqscan', 'off', true)")  # for this transaction
    tagged = await connection.fetch(
        """select id from tasks
            where tags @> $2 and tags is not null and tenant + 0 = $1 and id + 0 < $3 and id + 0 > $4
            order by id + 0 desc limit $5""",
        tenant, wanted.tag, stops[0], low, walk,
    )  # fmt: skip
    ids = [row["id"] for row in tagged]
    more, _ = await _drive(connection, tenant, wanted, stops[0], low, limit - len(rows), walk, _AMONG, ids)
    return rows + more, ids[-1:] if len(ids) == walk else []


async def _drive(
    connection: AnyConnection,
    tenant: int,
    wanted: TaskFilter,
    before: int,
    low: int,
    limit: int,
    walk: int,
    condition: str,
    value: object,
) -> tuple[list[asyncpg.Record], list[int]]:
    """Rows, and where the look stopped if it had to."""
    rows = await connection.fetch(
        sql("list_chosen").replace("{chosen}", condition), tenant, before, list(wanted.states), wanted.nodes,
        wanted.user, wanted.since, wanted.until, walk, low, limit + 1, value, wanted.name, wanted.tag, wanted.schedule,
        wanted.without_arrays,
    )  # fmt: skip
    if len(rows) > limit:
        return rows, []
    stop = await connection.fetchval(
        f"""select id from tasks where tenant = $1 and id < $2 and id > $3 and {condition.replace("$11", "$5")}
                and not ($6 and exists (
                    select from graph_tasks where graph_tasks.task = tasks.id and graph_tasks.item is not null))
            order by id desc offset $4 limit 1""",
        tenant, before, low, walk - 1, value, wanted.without_arrays,
    )  # fmt: skip
    return rows, [] if stop is None else [stop]


async def find_schedule(connection: AnyConnection, tenant: int, name: str) -> int | None:
    found: int | None = await connection.fetchval(
        "select id from schedules where tenant = $1 and name = $2", tenant, name
    )
    return found


async def find_nodes(connection: AnyConnection, name: str) -> list[int]:
    return [row["id"] for row in await connection.fetch("select id from nodes where name = $1 order by id", name)]
