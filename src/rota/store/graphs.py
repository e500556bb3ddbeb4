"""Graphs as rows: written with their tasks, joined by tasks that running members submit, read with all states.

One statement handles a whole graph, however many tasks it has. `observe.graph_view` interprets the states;
`graph_runs` copies members for a retry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from rota.model.task import State, Upstream
from rota.store.cancel_and_rerun import final_states, live_states
from rota.store.database import AnyConnection
from rota.store.listing import Page, id_bounds
from rota.store.statements import sql

HEAD_COLUMNS = ("id", "tenant", "name", "user_name", "is_array", "schedule", "scheduled_for")
MEMBER_COLUMNS = ("graph", "task", "tenant", "name", "place", "item")

WALK = 10_000  # graphs examined for a page


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRow:
    """A new graph. `members`: (task, name in the graph, position in topological order, index in an array)."""

    id: int
    tenant: int
    user: str
    name: str
    members: tuple[tuple[int, str, int, int | None], ...]
    is_array: bool = False
    rerun_of: int | None = None
    schedule: int | None = None  # the schedule that made it
    scheduled_for: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFilter:
    """Selects graphs; None means any. `arrays`: only arrays (True) or none of them (False)."""

    name: str | None = None
    schedule: int | None = None
    user: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    arrays: bool | None = None


@dataclass(frozen=True, slots=True)
class GraphMember:
    """A task of a graph or an array."""

    id: int
    name: str
    index: int | None  # in an array
    attempt: int  # its latest; 0: none


async def insert_graph(connection: AnyConnection, graph: GraphRow, most: int | None) -> bool:
    """False: the tenant has `most` graphs already; None: there is no limit.

    Locks the tenant's count until the transaction ends: one with graphs of several tenants goes by their numbers.
    """
    made = await connection.fetchval(
        sql("graphs/insert_graph"), graph.id, graph.tenant, graph.name, graph.user, graph.is_array, graph.rerun_of, most
    )
    if made is not None:
        await add_members(connection, graph.id, graph.tenant, graph.members)
    return made is not None


async def insert_graphs(connection: AnyConnection, graphs: Sequence[GraphRow]) -> None:
    """Many graphs at once, made by schedules."""
    heads = [(one.id, one.tenant, one.name, one.user, one.is_array, one.schedule, one.scheduled_for) for one in graphs]
    members = [
        (one.id, task, one.tenant, name, place, item) for one in graphs for task, name, place, item in one.members
    ]
    await connection.copy_records_to_table("graphs", records=heads, columns=HEAD_COLUMNS)
    await connection.copy_records_to_table("graph_tasks", records=members, columns=MEMBER_COLUMNS)


async def add_members(
    connection: AnyConnection, graph: int, tenant: int, members: Sequence[tuple[int, str, int, int | None]]
) -> None:
    records = [(graph, task, tenant, name, place, item) for task, name, place, item in members]
    await connection.copy_records_to_table("graph_tasks", records=records, columns=MEMBER_COLUMNS)


async def join_graph(
    connection: AnyConnection, parent: int, tenant: int, tasks: Sequence[int], names: Sequence[str]
) -> None:
    """Adds tasks that a running task submitted to its graph, if it is in one of the tenant's."""
    await connection.execute(sql("graphs/join_graph"), parent, tenant, tasks, names)


async def read_graph(connection: AnyConnection, graph: int, tenant: int) -> asyncpg.Record | None:
    return await connection.fetchrow(sql("graphs/read_graph"), graph, tenant)


async def read_members(connection: AnyConnection, graph: int, tenant: int) -> list[asyncpg.Record]:
    """The present members in topological order. A member that was run again is replaced by its new run."""
    return list(await connection.fetch(sql("graphs/read_graph_members"), graph, tenant))


async def members_page(
    connection: AnyConnection, graph: int, tenant: int, *, after: int, limit: int
) -> list[GraphMember]:
    """The present members in topological order, from the one after the member `after`; 0: from the first."""
    rows = await connection.fetch(sql("graphs/members_page"), graph, tenant, after, limit)
    return [GraphMember(row["id"], row["name"], row["item"], row["attempt"]) for row in rows]


async def begun_tasks(connection: AnyConnection, tasks: Sequence[int]) -> set[int]:
    """Those of the tasks that have ended or begun an attempt."""
    return {row["id"] for row in await connection.fetch(sql("graphs/begun_tasks"), tasks)}


async def successors(connection: AnyConnection, graph: int, tenant: int) -> dict[int, int]:
    """Members that were run again → their latest run."""
    rows = await connection.fetch(sql("graphs/successors"), graph, tenant)
    following: dict[int, int] = {row["task"]: row["rerun"] for row in rows}
    found = {}
    for task in following:
        last = task
        while last in following:
            last = following[last]
        found[task] = last
    return found


async def latest_states(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> dict[int, State]:
    """The state of each task, or of its latest run. A task removed by retention has none."""
    last = {task: task for task in tasks}
    while rows := await connection.fetch(sql("graphs/read_reruns"), list(set(last.values())), tenant):
        following = {row["task"]: row["rerun"] for row in rows}
        last = {task: following.get(one, one) for task, one in last.items()}
    runs = sorted(set(last.values()))
    states = await live_states(connection, runs, tenant)
    states |= await final_states(connection, [run for run in runs if run not in states], tenant)
    return {task: states[run] for task, run in last.items() if run in states}


def parents_of(member: asyncpg.Record, successors: Mapping[int, int]) -> tuple[tuple[int, Upstream], ...]:
    """The present parents of a member, and the rule for each."""
    after = member["after_tasks"] or ()
    rules = member["after_rules"] or [member["upstream"]] * len(after)
    return tuple((successors.get(one, one), Upstream(rule)) for one, rule in zip(after, rules, strict=True))


async def list_graphs(
    connection: AnyConnection,
    tenant: int,
    wanted: GraphFilter,
    *,
    before: int,
    limit: int,
    from_id: int = 0,
    walk: int = WALK,
) -> Page:
    """The newest graphs with their tasks counted by state, none below `from_id`, because counting is slow.

    One page. A short page may still have a next one.
    """
    low, before = await id_bounds(connection, tenant, wanted.since, wanted.until, before)
    low = max(low, from_id - 1)
    runs = None
    if wanted.schedule is not None:
        rows = await connection.fetch(sql("graphs/graphs_of_schedule"), wanted.schedule, before, walk)
        runs = [row["graph"] for row in rows]
    chosen = "by_nothing" if runs is None else "by_id"
    rows = await connection.fetch(
        sql("graphs/list_graphs", chosen=chosen),
        tenant,
        before,
        runs,
        wanted.name,
        wanted.arrays,
        wanted.user,
        wanted.since,
        wanted.until,
        walk,
        limit + 1,
        low,
    )
    if len(rows) > limit:
        return Page(list(rows[:limit]), rows[limit - 1]["id"])
    stop = await connection.fetchval(sql("graphs/last_examined", chosen=chosen), tenant, before, runs, walk - 1, low)
    return Page(list(rows), stop)


async def members_of(connection: AnyConnection, graph: int, tenant: int) -> list[int]:
    """All present and former members by id."""
    rows = await connection.fetch(sql("graphs/members_of"), graph, tenant)
    return [row["task"] for row in rows]


async def live_members(connection: AnyConnection, graph: int, tenant: int) -> list[int]:
    rows = await connection.fetch(sql("graphs/live_members"), graph, tenant)
    return [row["task"] for row in rows]


async def graph_of(connection: AnyConnection, task: int, tenant: int) -> asyncpg.Record | None:
    """The graph of a task, and its name there."""
    return await connection.fetchrow(sql("graphs/graph_of"), task, tenant)
