"""One batch of the ticker: what has come, locked, planned, made into runs and skips, and the cursors moved on.

It is one transaction that begins with the ticker's term, and remembers nothing: whatever is lost on the way is found
again by the next batch. How runs are made is the caller's; the simulated world has its own way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from rota.model.schedule.schedule import Schedule, Trigger
from rota.store import schedules
from rota.store.database import AnyConnection
from rota.store.leases import hold_fence
from rota.store.queue import Fence
from rota.store.schedules import HEAD, Cursor, Occurrence, Place
from rota.timetable.due import Due, Skip, due_of
from rota.timetable.runs import Made, Wanted

log = structlog.get_logger()

BATCH = 500  # schedules a transaction
MOST_RUNS = 2_000  # a transaction: a schedule that catches up on many may fill it alone

Make = Callable[[AnyConnection, Sequence[Wanted]], Awaitable[Made]]


class TermOver(Exception):
    """Another node has the ticker's lease."""


@dataclass(frozen=True, slots=True)
class Batch:
    place: Place | None  # where to look next; None: nothing more is due
    made: Made = field(default_factory=Made)


async def run_batch(connection: AnyConnection, fence: Fence, make: Make, after: Place = HEAD) -> Batch:
    """What is due past `after`, as one fenced transaction. Raises TermOver, and has changed nothing then."""
    again = None if after == HEAD else HEAD  # a last look: some may have been held by editors, or have come since
    async with connection.transaction():
        if not await hold_fence(connection, fence):
            raise TermOver
        due = await schedules.lock_due(connection, BATCH, after=after)
        if not due:
            return Batch(again)
        planned, full = _plan(due, await schedules.transaction_time(connection))
        wanted = [Wanted(one, at, start) for one, plan in planned for at, start in plan.runs]
        made = await make(connection, wanted)
        await schedules.insert_skips(connection, [skip for one, plan in planned for skip in _skips(one, plan)])
        await schedules.move_cursors(connection, _cursors(planned, made))
    if full or len(due) == BATCH:
        last = planned[-1][0]
        assert last.next_at is not None, "it was due"
        return Batch((last.next_at, last.id), made)
    return Batch(again, made)


Planned = list[tuple[Schedule, Due]]


def _plan(due: list[Schedule], now: datetime) -> tuple[Planned, bool]:
    """As many as fit one transaction, at least one; and whether others are left."""
    planned: Planned = []
    runs = 0
    for schedule in due:
        plan = _due(schedule, now)
        if planned and runs + len(plan.runs) > MOST_RUNS:
            return planned, True
        planned.append((schedule, plan))
        runs += len(plan.runs)
    return planned, False


def _due(schedule: Schedule, now: datetime) -> Due:
    """A schedule whose rule can't be walked any more (its zone is gone) must not stop others: it ends, on record."""
    try:
        return due_of(schedule, now)
    except Exception as error:
        log.exception("ticker.broken_rule", schedule=schedule.id)
        assert schedule.next_at is not None, "it was due"
        reason = f"its rule can't be read any more ({error!r}); edit it"
        return Due([], [Skip(schedule.next_at, None, reason[:1000])], None, schedule.next_at)


def _skips(schedule: Schedule, plan: Due) -> list[Occurrence]:
    return [
        Occurrence(schedule.id, skip.first, schedule.tenant, Trigger.TIME, None, skip.reason, skip.until)
        for skip in plan.skips
    ]


def _cursors(planned: Planned, made: Made) -> list[Cursor]:
    by_schedule: dict[int, list[Occurrence]] = {}
    for one in made.occurrences:
        if one.tasks is not None:
            by_schedule.setdefault(one.schedule, []).append(one)
    cursors = []
    for schedule, plan in planned:
        runs = by_schedule.get(schedule.id, [])
        over = schedule.max_runs is not None and schedule.runs + len(runs) >= schedule.max_runs
        last, graph = (runs[-1].tasks, runs[-1].graph) if runs else (None, None)
        cursors.append(Cursor(schedule.id, None if over else plan.next_at, plan.previous_at, len(runs), last, graph))
    return cursors
