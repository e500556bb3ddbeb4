"""Lists of a tenant's tasks, newest first, by whatever they are asked for. Pages stay right while tasks come and end.

Each question has one driver, an index that gives candidates in the order of ids: a graph, a name, a schedule or a
tag; for some states the final rows and the queue; else all of the tenant's. Of several, one that few tasks have drives.
Everything else is checked on the candidates, of which a page looks at a bounded number: a page that found little says
how far it looked, and the next goes on from there. Every page is quick, however rare the thing asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg
import msgspec

from rota.model.task import LIVE, State
from rota.store.database import AnyConnection
from rota.store.statements import sql

WALK = 2_000  # candidates a page looks at
_FEW = 500  # a state that fewer tasks ended in than this is looked through first
ID_SLACK = timedelta(minutes=5)  # ids are taken in blocks: a later one may be a little older


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks; None means any."""

    states: Sequence[State] = tuple(State)
    name: str | None = None
    tag: tuple[str, str] | None = None
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
    if wanted.nodes is not None and not wanted.nodes:
        return Page([], None)  # a node that never was
    low, before = await id_bounds(connection, tenant, wanted.since, wanted.until, before)
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


async def id_bounds(
    connection: AnyConnection, tenant: int, since: datetime | None, until: datetime | None, before: int
) -> tuple[int, int]:
    """Between which ids all lie that were submitted in that time."""
    low = 0
    if since is not None:
        low = await connection.fetchval(sql("listing/task_id_at"), tenant, since - ID_SLACK) or 0
    if until is not None:
        last = await connection.fetchval(sql("listing/task_id_at"), tenant, until + ID_SLACK) or 0
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
            sql("listing/list_live"), tenant, before, live, *checks, limit + 1, wanted.without_arrays
        )
    elif live:
        rows += await connection.fetch(sql("listing/list_live_among"), tenant, before, live, *checks, limit + 1, among)
    for state in wanted.states:
        if not state.terminal:
            continue
        found = await connection.fetch(
            sql("listing/list_ended"), tenant, before, state, *checks, walk, low, limit + 1, wanted.without_arrays
        )
        rows += found
        if len(found) <= limit and checks != (None,) * len(checks):
            stop = await connection.fetchval(sql("listing/last_ended_looked_at"), tenant, before, state, low, walk - 1)
            stops += [stop] if stop is not None else []
    return rows, stops


# Candidates' ids alone, newest first, from an index and nothing else.
_IDS_OF_NAME = sql("listing/ids_of_name")
_IDS_OF_SCHEDULE = sql("listing/ids_of_schedule")
_IDS_OF_TAG = sql("listing/ids_of_tag")
_IDS_OF_STATE = sql("listing/ids_of_state")
# One by one, in the order given, until there are enough.
_ENDED_AMONG = sql("listing/ended_among")


async def _chosen(
    connection: AnyConnection, tenant: int, wanted: TaskFilter, before: int, low: int, limit: int, walk: int
) -> tuple[list[asyncpg.Record], list[int]]:
    if wanted.graph is not None:
        members = await connection.fetch(sql("listing/ids_of_graph"), wanted.graph, tenant, before, low, walk)
        ids = [row["task"] for row in members]
        rows, _ = await _drive(connection, tenant, wanted, before, low, limit, walk, "by_id", ids)
        return rows, ids[-1:] if len(ids) == walk and len(rows) <= limit else []
    questions = _questions(wanted)
    if questions and all(state.terminal for state in wanted.states):
        return await _chosen_ended(connection, tenant, wanted, questions, before, low, limit, walk)
    if wanted.name is not None and len(questions) == 1:
        return await _drive(connection, tenant, wanted, before, low, limit, walk, "by_name", wanted.name)
    if wanted.schedule is not None and len(questions) == 1:
        return await _drive(connection, tenant, wanted, before, low, limit, walk, "by_schedule", wanted.schedule)
    if not questions:
        return await _drive(connection, tenant, wanted, before, low, limit, walk, "by_nothing", None)
    needed = _needed(wanted, limit, walk)
    ids = await _fewest(connection, tenant, questions, before, low, needed)
    rows, _ = await _drive(connection, tenant, wanted, before, low, limit, walk, "by_id", ids)
    return rows, ids[-1:] if len(ids) == needed else []


async def _chosen_ended(
    connection: AnyConnection,
    tenant: int,
    wanted: TaskFilter,
    questions: list[_Question],
    before: int,
    low: int,
    limit: int,
    walk: int,
) -> tuple[list[asyncpg.Record], list[int]]:
    """Of those that ended in some states an index tells whether they did, before any of their rows is read."""
    ids = await _fewest(connection, tenant, questions, before, low, walk)
    few = min(len(ids), _FEW)
    rare: list[int] = []
    for state in wanted.states:
        found = await connection.fetch(_IDS_OF_STATE, tenant, before, low, few, state)
        rare += [row["id"] for row in found]
    if len(rare) < few:
        rows, _ = await _drive(connection, tenant, wanted, before, low, limit, walk, "by_id", rare)
        return rows, []
    stops = ids[-1:] if len(ids) == walk else []
    ended = await connection.fetch(_ENDED_AMONG, tenant, list(wanted.states), ids, limit + 1)
    chosen = [row["id"] for row in ended]
    if len(chosen) > limit:  # there are more, which the other conditions may want
        stops = chosen[-1:]
    rows, _ = await _drive(connection, tenant, wanted, before, low, limit, walk, "by_id", chosen)
    return rows, stops


_Question = tuple[str, tuple[object, ...]]


def _questions(wanted: TaskFilter) -> list[_Question]:
    """The conditions that have an index of their own."""
    found: list[_Question] = []
    if wanted.tag is not None:
        found.append((_IDS_OF_TAG, wanted.tag))
    if wanted.schedule is not None:
        found.append((_IDS_OF_SCHEDULE, (wanted.schedule,)))
    if wanted.name is not None:
        found.append((_IDS_OF_NAME, (wanted.name,)))
    return found


async def _fewest(
    connection: AnyConnection, tenant: int, questions: list[_Question], before: int, low: int, most: int
) -> list[int]:
    """What the condition leaves that few tasks meet: all of it, if that is less than `most`."""
    fewest: list[int] | None = None
    for statement, values in questions:
        rows = await connection.fetch(statement, tenant, before, low, most if fewest is None else len(fewest), *values)
        if fewest is None or len(rows) < len(fewest):
            fewest = [row["id"] for row in rows]
    assert fewest is not None, "there is at least one"
    return fewest


def _needed(wanted: TaskFilter, limit: int, walk: int) -> int:
    """How many candidates a page can use: all of them pass if nothing else is asked for."""
    checks = (wanted.nodes, wanted.user, wanted.since, wanted.until, wanted.name, wanted.schedule)
    plain = checks == (None,) * len(checks) and len(wanted.states) == len(State) and not wanted.without_arrays
    return min(limit + 1, walk) if plain else walk


async def _drive(
    connection: AnyConnection,
    tenant: int,
    wanted: TaskFilter,
    before: int,
    low: int,
    limit: int,
    walk: int,
    chosen: str,
    value: object,
) -> tuple[list[asyncpg.Record], list[int]]:
    """Rows, and where the look stopped if it had to."""
    rows = await connection.fetch(
        sql("listing/list_chosen", chosen=chosen),
        tenant,
        before,
        list(wanted.states),
        wanted.nodes,
        value,
        wanted.since,
        wanted.until,
        walk,
        low,
        limit + 1,
        wanted.user,
        wanted.name,
        _document(wanted.tag),
        wanted.schedule,
        wanted.without_arrays,
    )
    if len(rows) > limit or chosen == "by_id":
        return rows, []
    stop = await connection.fetchval(
        sql("listing/last_looked_at", chosen=chosen), tenant, before, low, walk - 1, value, wanted.without_arrays
    )
    return rows, [] if stop is None else [stop]


def _document(tag: tuple[str, str] | None) -> str | None:
    return None if tag is None else msgspec.json.encode({tag[0]: tag[1]}).decode()


async def find_schedule(connection: AnyConnection, tenant: int, name: str) -> int | None:
    found: int | None = await connection.fetchval(sql("listing/find_schedule"), tenant, name)
    return found


async def find_nodes(connection: AnyConnection, name: str) -> list[int]:
    return [row["id"] for row in await connection.fetch(sql("listing/find_nodes"), name)]
