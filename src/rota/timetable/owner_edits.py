"""Owners' changes of schedules: create, edit, pause, resume, skip, move, run now, backfill. One transaction each.

The row is locked first, which serialises them with the ticker. A change that removes announced instants records a skip
with its reason for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from msgspec import UNSET

from rota.admit.artifacts import hold_artifacts
from rota.model.errors import FaultList, Problem, conflict, invalid
from rota.model.schedule.checks import applied, given_instant
from rota.model.schedule.request import ScheduleRequest
from rota.model.schedule.schedule import RuleKind, Schedule, Trigger, a_moment
from rota.store import schedules
from rota.store.database import AnyConnection
from rota.store.schedules import Occurrence
from rota.timetable.due import first_cursor
from rota.timetable.occurrences import instants, next_after, previous
from rota.timetable.runs import Made, Runs, Wanted

MOST_BACKFILLED = 1_000


def check_version(one: Schedule, version: int | None) -> None:
    if version is None:
        raise Problem(
            "version-required",
            status=428,
            title="Say which version you read",
            detail=f"schedule {one.name} is edited with the version that was read: If-Match, or version in the body",
        )
    if version != one.version:
        raise Problem(
            "version-changed",
            status=412,
            title="Somebody was faster",
            detail=f"schedule {one.name} has version {one.version} by now, not {version}; read it again",
            extra={"version": one.version},
        )


def begin(one: Schedule, now: datetime) -> Schedule:
    """A new schedule with its first cursor. Refused if it would never run."""
    following, before = first_cursor(one, now)
    if following is not None:
        return replace(one, next_at=following, previous_at=before)
    faults = FaultList()
    rule, coming = one.rule, next_after(one.rule, now)
    if coming is not None:
        detail = f"its first run would be at {_shown(coming)}, and it ends before that"
        faults.add("ends_at", "never-fires", detail)
    else:
        passed = rule.kind is RuleKind.AT
        why = f"has passed: it is {_shown(now)} now" if passed else "has no instant to come"
        faults.add(rule.kind.value, "never-fires", f"{rule.text[:60]!r} {why}")
    raise invalid(faults.faults)


async def edit(
    connection: AnyConnection,
    one: Schedule,
    request: ScheduleRequest,
    now: datetime,
    artifacts: tuple[bytes, ...] | None,
) -> Schedule:
    """Writes the change; raises all faults at once. `artifacts`: those that new tasks name; None: unchanged."""
    faults = FaultList()
    changed = applied(request, one, now=now, new=False, faults=faults)
    if artifacts is not None:
        changed = replace(changed, artifacts=artifacts)
        if artifacts:
            await hold_artifacts(connection, one.tenant, artifacts)
    moved = None
    if request.next_at is not UNSET:
        moved = given_instant("next_at", request.next_at, one.rule.zone, faults)
        if moved is not None and moved <= now:
            faults.add("next_at", "invalid-time", f"{request.next_at[:60]!r} has passed")
        if one.next_at is None or one.paused:
            faults.add("next_at", "inconsistent-times", "there is no next run to move: it has ended, or is paused")
    if faults.faults:
        raise invalid(faults.faults)
    if (changed.rule, changed.ends_at, changed.max_runs) != (one.rule, one.ends_at, one.max_runs):
        await _retire(connection, one, now, "edited before it was started")
        over = changed.max_runs is not None and changed.runs >= changed.max_runs
        following, before = (None, None) if over else first_cursor(changed, now)
        changed = replace(changed, next_at=following, previous_at=before, moved_from=None)
    elif one.paused and not changed.paused:
        changed = await _resumed(connection, changed, now)
    if moved is not None and changed.next_at is not None:
        changed = await _moved(connection, changed, moved)
    return await schedules.save_schedule(connection, changed)


async def pause(connection: AnyConnection, one: Schedule) -> Schedule:
    return one if one.paused else await schedules.save_schedule(connection, replace(one, paused=True))


async def resume(connection: AnyConnection, one: Schedule, now: datetime) -> Schedule:
    if not one.paused:
        return one
    return await schedules.save_schedule(connection, await _resumed(connection, replace(one, paused=False), now))


async def skip_next(connection: AnyConnection, one: Schedule, user: str) -> Schedule:
    if one.next_at is None:
        raise conflict("schedule-ended", f"schedule {one.name} has no run to come")
    await _skip(connection, one, one.next_at, None, f"skipped by {user}")
    following = next_after(one.rule, max(one.next_at, one.moved_from or one.next_at))
    if following is not None and one.ends_at is not None and following > one.ends_at:
        following = None
    changed = replace(one, next_at=following, previous_at=one.next_at, moved_from=None)
    return await schedules.save_schedule(connection, changed)


async def run_now(connection: AnyConnection, runs: Runs, one: Schedule, now: datetime) -> tuple[Occurrence, Made]:
    """A run for the present instant. The overlap policy holds for it too."""
    made = await runs.make(connection, [Wanted(one, now, previous(one.rule, now) or now, Trigger.MANUAL)])
    await _count(connection, one, made)
    return made.occurrences[0], made


@dataclass(frozen=True, slots=True)
class Backfilled:
    made: Made
    already: list[datetime]  # instants that had a run before


async def backfill(
    connection: AnyConnection, runs: Runs, one: Schedule, *, start: datetime, end: datetime, now: datetime
) -> Backfilled:
    """Runs for all instants from `start` to before `end` without one, oldest first."""
    wanted: list[Wanted] = []
    before = previous(one.rule, start)
    for at in islice(instants(one.rule, start - RESOLUTION), MOST_BACKFILLED + 1):
        if at >= min(end, now):
            break
        wanted.append(Wanted(one, at, before or at, Trigger.BACKFILL))
        before = at
    if len(wanted) > MOST_BACKFILLED:
        faults = FaultList()
        faults.add("to", "out-of-range", f"more than {MOST_BACKFILLED} instants lie there; backfill in parts")
        raise invalid(faults.faults)
    made = await runs.make(connection, wanted)
    await _count(connection, one, made)
    recorded = {occurrence.instant for occurrence in made.occurrences}
    return Backfilled(made, [one.instant for one in wanted if one.instant not in recorded])


async def _count(connection: AnyConnection, one: Schedule, made: Made) -> None:
    own = [run for run in made.occurrences if run.schedule == one.id and run.tasks is not None]
    if own:
        await schedules.count_manual_run(connection, own)


async def _resumed(connection: AnyConnection, one: Schedule, now: datetime) -> Schedule:
    if one.next_at is None or one.next_at > now:
        return one
    await _retire(connection, one, now, "paused")
    following, before = first_cursor(one, now)
    return replace(one, next_at=following, previous_at=before, moved_from=None)


async def _moved(connection: AnyConnection, one: Schedule, to: datetime) -> Schedule:
    assert one.next_at is not None, "what is moved is there"
    if to == one.next_at:
        return one
    until = to if to > one.next_at else None
    await _skip(connection, one, one.next_at, until, f"moved to {_shown(to)}")
    origin = one.moved_from or one.next_at
    return replace(one, next_at=to, moved_from=max(origin, one.next_at), previous_at=previous(one.rule, to))


async def _retire(connection: AnyConnection, one: Schedule, now: datetime, reason: str) -> None:
    """The due instants that will not be run any more."""
    if one.next_at is not None and one.next_at <= now:
        await _skip(connection, one, one.next_at, a_moment(now), reason)


async def _skip(connection: AnyConnection, one: Schedule, first: datetime, until: datetime | None, reason: str) -> None:
    skip = Occurrence(one.id, first, one.tenant, Trigger.MANUAL, None, reason, until)
    await schedules.insert_skips(connection, [skip])


def _shown(at: datetime) -> str:
    return at.replace(microsecond=0).isoformat().replace("+00:00", "Z")


RESOLUTION = a_moment(datetime.min) - datetime.min
