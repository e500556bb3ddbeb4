"""One batch of the ticker: locks due schedules, plans, makes runs and skips, and moves the cursors.

It is one transaction, fenced by the ticker's term, without memory: the next batch finds whatever was lost. The caller
passes the function that makes runs.
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
from rota.store.schedules import HEAD, Cursor, DueCursor, Occurrence
from rota.timetable.due import Due, Skip, due_of
from rota.timetable.runs import Made, Wanted

log = structlog.get_logger()

BATCH = 500  # schedules in a transaction
MOST_RUNS = 2_000  # in a transaction; one schedule that catches up may fill it

Make = Callable[[AnyConnection, Sequence[Wanted]], Awaitable[Made]]


class TermOver(Exception):
    """Another node holds the ticker's lease. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Batch:
    next: DueCursor | None  # where the next batch begins; None: nothing more is due
    made: Made = field(default_factory=Made)


async def run_batch(connection: AnyConnection, fence: Fence, make: Make, after: DueCursor = HEAD) -> Batch:
    """One fenced transaction for the schedules due after the cursor `after`. Raises TermOver."""
    again = None if after == HEAD else HEAD  # once more: editors may have held some, and others may have come due
    async with connection.transaction():
        if not await hold_fence(connection, fence):
            raise TermOver
        due = await schedules.lock_due(connection, BATCH, after=after)
        if not due:
            return Batch(again)
        planned, full = _plan(due, await schedules.transaction_time(connection))
        wanted = [Wanted(one, at, start) for one, plan in planned for at, start in plan.runs]
        made = await make(connection, wanted)
        skips = [
            Occurrence(one.id, skip.first, one.tenant, Trigger.TIME, None, skip.reason, skip.until)
            for one, plan in planned
            for skip in plan.skips
        ]
        await schedules.insert_skips(connection, skips)
        await schedules.move_cursors(connection, _cursors(planned, made))
    if full or len(due) == BATCH:
        last = planned[-1][0]
        assert last.next_at is not None, "it was due"
        return Batch((last.next_at, last.id), made)
    return Batch(again, made)


Planned = list[tuple[Schedule, Due]]


def _plan(due: list[Schedule], now: datetime) -> tuple[Planned, bool]:
    """The schedules that fit one transaction, at least one; and whether others are left."""
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
    """A schedule whose rule fails (its time zone is gone) must not stop others: it ends with a recorded skip."""
    try:
        return due_of(schedule, now)
    except Exception as error:
        log.exception("ticker.broken_rule", schedule=schedule.id)
        assert schedule.next_at is not None, "it was due"
        reason = f"its rule can't be read any more ({error!r}); edit it"
        return Due([], [Skip(schedule.next_at, None, reason[:1000])], None, schedule.next_at)


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
