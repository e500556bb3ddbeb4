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
from rota.model.clock import JUST_NOW, TIME_PASSED, has_passed, passed_detail, shown_instant
from rota.model.errors import Fault, FaultList, Problem, conflict, invalid
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
            title="The version is missing",
            detail=f"schedule {one.name} is edited with the version that was read: If-Match, or version in the body",
        )
    if version != one.version:
        raise Problem(
            "version-changed",
            status=412,
            title="It has changed since",
            detail=f"schedule {one.name} has version {one.version} by now, not {version}; read it again",
            extra={"version": one.version},
        )


def begin(one: Schedule, now: datetime) -> Schedule:
    """A new schedule with its first cursor. Refused if it would never run."""
    fault = never_fires(one, now)
    if fault is not None:
        raise invalid([fault])
    following, before = first_cursor(one, now, new=True)
    return replace(one, next_at=following, previous_at=before)


def never_fires(one: Schedule, now: datetime) -> Fault | None:
    """The fault of a new rule without an instant to come."""
    if first_cursor(one, now, new=True)[0] is not None:
        return None
    rule, coming = one.rule, first_cursor(replace(one, ends_at=None), now, new=True)[0]
    if coming is not None:
        detail = f"its first run would be at {shown_instant(coming)}, and it ends before that"
        return Fault("/ends_at", "never-fires", detail)
    if rule.kind is RuleKind.AT:
        return Fault("/at", TIME_PASSED, passed_detail(rule.text, now))
    return Fault(f"/{rule.kind.value}", "never-fires", f"{rule.text[:60]!r} has no instant to come")


def changed_by(one: Schedule, request: ScheduleRequest, now: datetime, faults: FaultList) -> Schedule:
    """The schedule after an edit, with its next run. It must not be stored if `faults` has any afterwards."""
    changed = with_cursor(one, applied(request, one, now=now, new=False, faults=faults), now)
    if changed.rule != one.rule and next_after(changed.rule, now - JUST_NOW) is None:
        fault = never_fires(replace(changed, ends_at=None), now)
        faults.faults.extend([fault] if fault is not None else [])
    if request.next_at is not UNSET:
        moved = given_instant("next_at", request.next_at, one.rule.zone, faults)
        if moved is not None and has_passed(moved, now):
            faults.add("next_at", TIME_PASSED, passed_detail(request.next_at, now))
        if one.next_at is None or one.paused:
            faults.add("next_at", "inconsistent-times", "there is no next run to move: it has ended, or is paused")
    return changed


def with_cursor(one: Schedule, changed: Schedule, now: datetime) -> Schedule:
    """`changed` with the next run that its new rule, end or resumption gives it. A moved next run stays otherwise."""
    if _retimed(one, changed):
        over = changed.max_runs is not None and changed.runs >= changed.max_runs
        following, before = (None, None) if over else first_cursor(changed, now, new=changed.rule != one.rule)
        return replace(changed, next_at=following, previous_at=before, moved_from=None)
    if one.paused and not changed.paused and _is_due(one, now):
        following, before = first_cursor(changed, now)
        return replace(changed, next_at=following, previous_at=before, moved_from=None)
    return changed


async def edit(
    connection: AnyConnection,
    one: Schedule,
    request: ScheduleRequest,
    now: datetime,
    artifacts: tuple[bytes, ...] | None,
) -> Schedule:
    """Writes the change; raises all faults at once. `artifacts`: those that new tasks name; None: unchanged."""
    faults = FaultList()
    changed = changed_by(one, request, now, faults)
    if faults.faults:
        raise invalid(faults.faults)
    if artifacts is not None:
        changed = replace(changed, artifacts=artifacts)
    if request.next_at is not UNSET and changed.next_at is not None:
        moved = given_instant("next_at", request.next_at, one.rule.zone, faults)
        assert moved is not None, "it was checked"
        return await apply(connection, one, await _moved(connection, changed, moved), now)
    return await apply(connection, one, changed, now)


async def apply(connection: AnyConnection, one: Schedule, changed: Schedule, now: datetime) -> Schedule:
    """Writes a change of `one`, whose row the caller has locked.

    Each due instant that it takes away becomes a skip.
    """
    if changed.artifacts != one.artifacts and changed.artifacts:
        await hold_artifacts(connection, one.tenant, changed.artifacts)
    if _is_due(one, now) and _retimed(one, changed):
        await _retire(connection, one, now, "edited before it was started")
    elif _is_due(one, now) and one.paused and not changed.paused:
        await _retire(connection, one, now, "paused")
    return await schedules.save_schedule(connection, changed)


def _retimed(one: Schedule, changed: Schedule) -> bool:
    return (changed.rule, changed.ends_at, changed.max_runs) != (one.rule, one.ends_at, one.max_runs)


def _is_due(one: Schedule, now: datetime) -> bool:
    return one.next_at is not None and one.next_at <= now


async def pause(connection: AnyConnection, one: Schedule) -> Schedule:
    return one if one.paused else await schedules.save_schedule(connection, replace(one, paused=True))


async def resume(connection: AnyConnection, one: Schedule, now: datetime) -> Schedule:
    if not one.paused:
        return one
    return await apply(connection, one, with_cursor(one, replace(one, paused=False), now), now)


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
        faults.add(
            "to",
            "out-of-range",
            f"more than {MOST_BACKFILLED} instants lie in that range; backfill it in several parts",
        )
        raise invalid(faults.faults)
    made = await runs.make(connection, wanted)
    await _count(connection, one, made)
    recorded = {occurrence.instant for occurrence in made.occurrences}
    return Backfilled(made, [one.instant for one in wanted if one.instant not in recorded])


async def _count(connection: AnyConnection, one: Schedule, made: Made) -> None:
    own = [run for run in made.occurrences if run.schedule == one.id and run.tasks is not None]
    if own:
        await schedules.count_manual_run(connection, own)


async def _moved(connection: AnyConnection, one: Schedule, to: datetime) -> Schedule:
    assert one.next_at is not None, "what is moved is there"
    if to == one.next_at:
        return one
    until = to if to > one.next_at else None
    await _skip(connection, one, one.next_at, until, f"moved to {shown_instant(to)}")
    origin = one.moved_from or one.next_at
    return replace(one, next_at=to, moved_from=max(origin, one.next_at), previous_at=previous(one.rule, to))


async def _retire(connection: AnyConnection, one: Schedule, now: datetime, reason: str) -> None:
    """The due instants that will not be run any more."""
    if one.next_at is not None and one.next_at <= now:
        await _skip(connection, one, one.next_at, a_moment(now), reason)


async def _skip(connection: AnyConnection, one: Schedule, first: datetime, until: datetime | None, reason: str) -> None:
    skip = Occurrence(one.id, first, one.tenant, Trigger.MANUAL, None, reason, until)
    await schedules.insert_skips(connection, [skip])


RESOLUTION = a_moment(datetime.min) - datetime.min
