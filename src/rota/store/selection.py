"""The tasks or dead letters that an operation would change, by filter, in parts that are read from the newest on.

As in `listing`, one index gives candidates in the order of ids, and the rest of the filter is checked on them. A part
examines a bounded number of candidates, more of them while few match, and says where the next one begins.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import msgspec

from rota.model.request.operation import Selection, Verb
from rota.model.task import LIVE, State
from rota.store.database import AnyConnection
from rota.store.listing import id_bounds
from rota.store.reading import NEWEST
from rota.store.statements import sql

FEWEST_EXAMINED = 2_000
MOST_EXAMINED = 20_000


@dataclass(frozen=True, slots=True)
class Part:
    """Matching tasks, newest first. The next part is below the id `next`; None: this is the last one."""

    tasks: list[int]
    states: list[State]
    examined: int
    next: int | None

    def examine_next(self) -> int:
        """How many candidates to examine for the next part: twice as many while few of them match."""
        return min(2 * self.examined, MOST_EXAMINED) if 4 * len(self.tasks) < self.examined else FEWEST_EXAMINED


async def read_part(
    connection: AnyConnection,
    tenant: int,
    verb: Verb,
    wanted: Selection,
    *,
    before: int,
    most: int,
    examine: int = FEWEST_EXAMINED,
) -> Part:
    low = 0
    if not verb.of_dead_letters:
        low, before = await id_bounds(connection, tenant, wanted.since, wanted.until, before)
    examine = max(examine, FEWEST_EXAMINED)
    walk, value = _candidates(verb, wanted)
    if verb.of_dead_letters:
        statement, conditions = sql("selection/of_dead", walk=walk), _of_dead(wanted)
    else:
        of = "selection/of_live" if wanted.states[0] in LIVE else "selection/of_ended"
        statement, conditions = sql(of, walk=walk), _of_tasks(verb, wanted)
    row = await connection.fetchrow(statement, tenant, before, examine, most, value, *conditions)
    assert row is not None, "it has no condition"
    following: int | None = row["ids"][-1] if len(row["ids"]) == most else row["last"]
    if len(row["ids"]) < most and row["walked"] < examine:
        following = None
    if following is not None and following <= low:
        following = None
    return Part(row["ids"], [State(state) for state in row["states"]], examine, following)


@dataclass(frozen=True, slots=True)
class Count:
    """How many match, by state, and the newest of them. `or_more`: the count stopped at its bound."""

    number: int
    or_more: bool
    states: dict[State, int]
    newest: list[int]


async def count(
    connection: AnyConnection,
    tenant: int,
    verb: Verb,
    wanted: Selection,
    *,
    most: int,
    seconds: float,
    shown: int,
    part: int = MOST_EXAMINED,
) -> Count:
    """Counts up to `most`, and no longer than about `seconds`."""
    until = time.monotonic() + seconds
    states: Counter[State] = Counter()
    newest: list[int] = []
    number, before, examine = 0, NEWEST, FEWEST_EXAMINED
    while True:
        found = await read_part(connection, tenant, verb, wanted, before=before, most=part, examine=examine)
        number += len(found.tasks)
        states.update(found.states)
        newest += found.tasks[: shown - len(newest)]
        if found.next is None or number > most:
            break
        before, examine = found.next, MOST_EXAMINED
        if time.monotonic() > until:
            return Count(number, True, dict(states), newest)
    return Count(min(number, most), number > most, dict(states), newest)


def _candidates(verb: Verb, wanted: Selection) -> tuple[str, object]:
    """The statement that gives candidates, and the value that they have in common."""
    if wanted.graph is not None:
        return "by_graph", wanted.graph
    if verb.of_dead_letters:
        return "by_letter", None
    if wanted.schedule is not None:
        return "by_schedule", wanted.schedule
    if wanted.tag is not None:
        return "by_tag", list(wanted.tag)
    if wanted.name is not None:
        return "by_name", wanted.name
    if wanted.states[0] in LIVE:
        return "by_queue", None
    return "by_ended", list(wanted.states)


def _of_tasks(verb: Verb, wanted: Selection) -> list[object]:
    return [
        list(wanted.states),
        verb is Verb.RELEASE,
        None if wanted.nodes is None else list(wanted.nodes),
        wanted.name,
        _document(wanted.tag),
        wanted.schedule,
        wanted.user,
        wanted.since,
        wanted.until,
    ]


def _of_dead(wanted: Selection) -> list[object]:
    return [
        wanted.reason,
        wanted.failure,
        wanted.since,
        wanted.until,
        wanted.name,
        _document(wanted.tag),
        wanted.schedule,
        wanted.user,
    ]


def _document(tag: tuple[str, str] | None) -> str | None:
    return None if tag is None else msgspec.json.encode({tag[0]: tag[1]}).decode()
