"""Lists of a tenant's tasks by filter, newest first. Pages stay right while tasks arrive and end.

Each query has one driving index, which gives candidates in the order of ids: a graph, a name, a schedule or a tag; for
a filter by state the final rows and the queue; else all tasks of the tenant. Of several, the most selective one drives.
Given ids are candidates themselves. The rest of the filter is checked on the candidates. A page examines a bounded
number of them, and a short page says where it stopped, so that every page is quick however rare the matching tasks are.
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

WALK = 2_000  # candidates examined for a page
_FEW = 500  # a final state of fewer tasks than this is selective
ID_SLACK = timedelta(minutes=5)  # ids are taken in blocks, so a larger id may be a little older


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Selects tasks; None means any."""

    states: Sequence[State] = tuple(State)
    name: str | None = None
    tag: tuple[str, str] | None = None
    schedule: int | None = None
    graph: int | None = None
    ids: frozenset[int] | None = None  # among these
    nodes: Sequence[int] | None = None  # a name may be used in several pools
    user: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    without_arrays: bool = False  # the tasks of an array are shown as one line elsewhere


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[asyncpg.Record]
    next: int | None  # the next page is below this id; None: there is none


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
    """One page. `among`: only these of the live tasks."""
    if wanted.nodes is not None and not wanted.nodes:
        return Page([], None)  # no node has this name
    low, before = await id_bounds(connection, tenant, wanted.since, wanted.until, before)
    any_state = len(wanted.states) == len(State)
    chosen = (wanted.name, wanted.schedule, wanted.tag, wanted.graph, wanted.ids)
    if any_state or any(one is not None for one in chosen):
        rows, stops = await _chosen(connection, tenant, wanted, before, low, limit, walk)
    else:
        rows, stops = await _by_state(connection, tenant, wanted, before, low, limit, walk, among)
    latest = {row["id"]: row for row in rows}  # a task that ended between two statements comes twice; the end counts
    cut = max(stops, default=None)
    found = [latest[number] for number in sorted(latest, reverse=True) if cut is None or number >= cut]
    if len(found) > limit:
        return Page(found[:limit], found[limit - 1]["id"])
    return Page(found, cut)


async def id_bounds(
    connection: AnyConnection, tenant: int, since: datetime | None, until: datetime | None, before: int
) -> tuple[int, int]:
    """The range of ids submitted in that time."""
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
    """Each final state by its own index, the live tasks from the queue."""
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
            stop = await connection.fetchval(sql("listing/last_ended_examined"), tenant, before, state, low, walk - 1)
            stops += [stop] if stop is not None else []
    return rows, stops


# Ids of candidates, newest first, from an index only.
_IDS_OF_NAME = sql("listing/ids_of_name")
_IDS_OF_SCHEDULE = sql("listing/ids_of_schedule")
_IDS_OF_TAG = sql("listing/ids_of_tag")
_IDS_OF_STATE = sql("listing/ids_of_state")
# The given ids one by one, until there are enough.
_ENDED_AMONG = sql("listing/ended_among")


async def _chosen(
    connection: AnyConnection, tenant: int, wanted: TaskFilter, before: int, low: int, limit: int, walk: int
) -> tuple[list[asyncpg.Record], list[int]]:
    if wanted.graph is not None or wanted.ids is not None:
        candidates = await _members(connection, tenant, wanted, before, low, walk)
        ids = [number for number in candidates if wanted.ids is None or number in wanted.ids]
        rows, _ = await _drive(connection, tenant, wanted, before, low, limit, walk, "by_id", ids)
        return rows, candidates[-1:] if len(candidates) == walk and len(rows) <= limit else []
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


async def _members(
    connection: AnyConnection, tenant: int, wanted: TaskFilter, before: int, low: int, walk: int
) -> list[int]:
    """Candidates of the graph, else of the given ids, newest first."""
    if wanted.graph is None:
        return sorted((number for number in wanted.ids or () if low < number < before), reverse=True)[:walk]
    members = await connection.fetch(sql("listing/ids_of_graph"), wanted.graph, tenant, before, low, walk)
    return [row["task"] for row in members]


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
    """Only final states are wanted: an index filters the candidates before their rows are read."""
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
    if len(chosen) > limit:  # there are more candidates, which may match the rest of the filter
        stops = chosen[-1:]
    rows, _ = await _drive(connection, tenant, wanted, before, low, limit, walk, "by_id", chosen)
    return rows, stops


_Question = tuple[str, tuple[object, ...]]


def _questions(wanted: TaskFilter) -> list[_Question]:
    """The conditions that have an index: the statement and its arguments."""
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
    """The candidates of the most selective condition: all of them, if they are fewer than `most`."""
    fewest: list[int] | None = None
    for statement, values in questions:
        rows = await connection.fetch(statement, tenant, before, low, most if fewest is None else len(fewest), *values)
        if fewest is None or len(rows) < len(fewest):
            fewest = [row["id"] for row in rows]
    assert fewest is not None, "there is at least one"
    return fewest


def _needed(wanted: TaskFilter, limit: int, walk: int) -> int:
    """How many candidates a page needs: if there is no other condition, all of them match."""
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
    """The rows, and the id where the walk stopped before the end."""
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
        sql("listing/last_examined", chosen=chosen), tenant, before, low, walk - 1, value, wanted.without_arrays
    )
    return rows, [] if stop is None else [stop]


def _document(tag: tuple[str, str] | None) -> str | None:
    return None if tag is None else msgspec.json.encode({tag[0]: tag[1]}).decode()


async def find_schedule(connection: AnyConnection, tenant: int, name: str) -> int | None:
    found: int | None = await connection.fetchval(sql("listing/find_schedule"), tenant, name)
    return found


async def find_nodes(connection: AnyConnection, name: str) -> list[int]:
    return [row["id"] for row in await connection.fetch(sql("listing/find_nodes"), name)]
