"""Graphs as rows: written with their tasks, joined by tasks that running members submit, read with all states.

One statement handles a whole graph, however many tasks it has. `observe.graph_view` interprets the states;
`graph_runs` copies members for a retry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from rota.model.request.task_request import MAX_BATCH
from rota.model.task import State, Upstream
from rota.store.cancel_and_rerun import final_states, live_states
from rota.store.database import AnyConnection
from rota.store.listing import Page, id_bounds
from rota.store.statements import sql

HEAD_COLUMNS = ("id", "tenant", "name", "user_name", "is_array", "schedule", "scheduled_for", "from_task")
MEMBER_COLUMNS = ("graph", "task", "tenant", "name", "place", "item", "parent")

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
    from_task: bool = False  # it is one task, which may submit others
    within: int | None = None  # the outermost graph to which it belongs
    parent: int | None = None  # the running task that submits it
    first_place: int = 0  # of its members, in the graph to which it belongs


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
        sql("graphs/insert_graph"),
        graph.id,
        graph.tenant,
        graph.name,
        graph.user,
        graph.is_array,
        graph.rerun_of,
        most,
        graph.within,
        graph.from_task,
    )
    if made is not None:
        await add_members(
            connection, graph.id, graph.tenant, graph.members, parent=graph.parent, first_place=graph.first_place
        )
    return made is not None


async def count_graphs(connection: AnyConnection, tenant: int, number: int, most: int | None) -> bool:
    """Counts so many new graphs; False: the tenant would have more than `most`. Locks as `insert_graph` does."""
    return await connection.fetchval(sql("graphs/count_graphs"), tenant, number, most) is not None


async def insert_graphs(connection: AnyConnection, graphs: Sequence[GraphRow]) -> None:
    """Many graphs at once that plans do not limit, or that are counted already."""
    heads = [
        (one.id, one.tenant, one.name, one.user, one.is_array, one.schedule, one.scheduled_for, one.from_task)
        for one in graphs
    ]
    members = [
        (one.id, task, one.tenant, name, place, item, one.parent)
        for one in graphs
        for task, name, place, item in one.members
    ]
    await connection.copy_records_to_table("graphs", records=heads, columns=HEAD_COLUMNS)
    await connection.copy_records_to_table("graph_tasks", records=members, columns=MEMBER_COLUMNS)


async def add_members(
    connection: AnyConnection,
    graph: int,
    tenant: int,
    members: Sequence[tuple[int, str, int, int | None]],
    *,
    parent: int | None = None,
    first_place: int = 0,
) -> None:
    """`parent`: the running task that submits them."""
    records = [(graph, task, tenant, name, first_place + place, item, parent) for task, name, place, item in members]
    await connection.copy_records_to_table("graph_tasks", records=records, columns=MEMBER_COLUMNS)


@dataclass(frozen=True, slots=True)
class Places:
    """Places in a graph for tasks that a running attempt submits."""

    is_live: bool  # the attempt runs and is not to be stopped
    first: int | None  # the first place; None: too many tasks would have joined


async def take_places(
    connection: AnyConnection, graph: int, tenant: int, number: int, *, most: int, task: int, attempt: int
) -> Places:
    """Locks the attempt and the graph until the transaction ends. `most`: how many tasks may join in all."""
    row = await connection.fetchrow(sql("graphs/take_places"), graph, tenant, number, most, task, attempt)
    assert row is not None
    return Places(row["is_live"], None if row["joined"] is None else MAX_BATCH + row["joined"] - number)


async def copy_memberships(connection: AnyConnection, olds: Sequence[int], news: Sequence[int]) -> None:
    """Gives new runs the places of the old ones."""
    await connection.execute(sql("graphs/copy_memberships"), olds, news)


async def join_graph(
    connection: AnyConnection, parent: int, tenant: int, tasks: Sequence[int], names: Sequence[str]
) -> set[int]:
    """Adds tasks that a running task submitted to its graph, if it is in one of the tenant's. Returns those added."""
    rows = await connection.fetch(sql("graphs/join_graph"), parent, tenant, tasks, names)
    return {row["task"] for row in rows}


async def begun_by(connection: AnyConnection, task: int, tenant: int) -> int | None:
    """The graph that a task began because it may submit others."""
    graph: int | None = await connection.fetchval(sql("graphs/begun_by"), task, tenant)
    return graph


async def graph_named(connection: AnyConnection, number: int | None, tenant: int) -> int | None:
    """The graph that a filter names: by its own id, or by that of the task that began it."""
    return None if number is None else await begun_by(connection, number, tenant) or number


async def begun_by_many(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> dict[int, int]:
    """Task → the graph that it began because it may submit others."""
    rows = await connection.fetch(sql("graphs/begun_by_many"), tasks, tenant)
    return {row["task"]: row["graph"] for row in rows}


async def members_among(connection: AnyConnection, graph: int, tenant: int, tasks: Sequence[int]) -> set[int]:
    """Those of the tasks that are in the graph, or in one within it."""
    rows = await connection.fetch(sql("graphs/members_among"), graph, tenant, tasks)
    return {row["task"] for row in rows}


async def is_within(connection: AnyConnection, graph: int, tenant: int, outermost: int) -> bool:
    """Whether the graph is the other one, or within it."""
    return await connection.fetchrow(sql("graphs/is_within"), graph, tenant, outermost) is not None


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


async def members_called(connection: AnyConnection, graph: int, name: str, tenant: int) -> list[int]:
    """The members with this name in the graph, present and former; an array's name means all of its tasks."""
    rows = await connection.fetch(sql("graphs/members_called"), graph, name, tenant)
    return [row["task"] for row in rows]


async def names_in_graphs(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> dict[int, str]:
    """The names of those that are in a graph, without those of arrays."""
    rows = await connection.fetch(sql("graphs/names_in_graphs"), tasks, tenant)
    return {row["task"]: row["name"] for row in rows}


async def live_members(connection: AnyConnection, graph: int, tenant: int) -> list[int]:
    rows = await connection.fetch(sql("graphs/live_members"), graph, tenant)
    return [row["task"] for row in rows]


async def graph_of(connection: AnyConnection, task: int, tenant: int) -> asyncpg.Record | None:
    """The graph of a task, and its name there."""
    return await connection.fetchrow(sql("graphs/graph_of"), task, tenant)
