"""The due instants of a schedule: which become runs, which are skipped, and where its cursor moves. Pure.

An instant is *missed* if it passed more than `MISSED` ago: a change of leader takes less, so only downtime makes missed
instants. An instant that is not missed is always run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.clock import JUST_NOW, to_us
from rota.model.schedule.schedule import Missed, RuleKind, Schedule, a_moment, a_moment_before
from rota.timetable.occurrences import instants, latest, next_after, previous

MISSED = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Skip:
    """The instants from `first` to before `until`; None: only `first`."""

    first: datetime
    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class Due:
    runs: list[tuple[datetime, datetime]]  # (instant, start of its interval)
    skips: list[Skip]
    next_at: datetime | None
    previous_at: datetime | None


def due_of(schedule: Schedule, now: datetime) -> Due:
    """The plan for all instants up to `now` of a schedule whose cursor is due."""
    cursor = schedule.next_at
    assert cursor is not None, "a schedule without a cursor is never due"
    edge = now - MISSED
    found: list[datetime] = []
    skips: list[Skip] = []
    on = cursor if schedule.moved_from is None else max(cursor, schedule.moved_from)
    if cursor > edge:
        found.append(cursor)
    else:
        found += _kept(schedule, cursor, on, edge)
        first_kept = found[0] if found else a_moment(edge)
        if first_kept > cursor:
            reason = f"missed: it came while no server node could start it ({schedule.missed})"
            skips.append(Skip(cursor, first_kept, reason))
        on = max(on, edge)
    following: datetime | None = None
    for at in instants(schedule.rule, on):
        if at > now:
            following = at
            break
        found.append(at)
    if schedule.ends_at is not None:
        found = [at for at in found if at <= schedule.ends_at]
        following = following if following is not None and following <= schedule.ends_at else None
    last = found[-1] if found else cursor
    if not found and following is not None:
        last = previous(schedule.rule, following) or cursor
    if schedule.max_runs is not None and len(found) > schedule.max_runs - schedule.runs:
        room = max(0, schedule.max_runs - schedule.runs)
        following = found[room] if room else None
        found = found[:room]
        last = found[-1] if found else last
    return Due(list(_with_starts(schedule, found)), skips, following, last)


def _kept(schedule: Schedule, cursor: datetime, on: datetime, edge: datetime) -> list[datetime]:
    """The missed instants that are run by the schedule's policy."""
    amount = {Missed.SKIP: 0, Missed.ONCE: 1, Missed.ALL: schedule.missed_limit}[schedule.missed]
    found = latest(schedule.rule, edge, amount, since=a_moment(on))
    return [cursor, *found] if len(found) < amount else found


def _with_starts(schedule: Schedule, found: list[datetime]) -> Iterator[tuple[datetime, datetime]]:
    before: datetime | None = None
    for at in found:
        if before is None:
            before = schedule.previous_at if at == schedule.next_at else previous(schedule.rule, at)
        yield at, at if before is None else before
        before = at


def first_cursor(schedule: Schedule, now: datetime, *, new: bool = False) -> tuple[datetime | None, datetime | None]:
    """(next_at, previous_at) of a schedule that begins, resumes or changes at `now`.

    `new`: its rule is new. A single time that passed a moment ago then counts as now, as for a task.
    """
    since = a_moment_before(now - JUST_NOW) if new and schedule.rule.kind is RuleKind.AT else now
    following = next_after(schedule.rule, since)
    if following is None or (schedule.ends_at is not None and following > schedule.ends_at):
        return None, None
    return following, previous(schedule.rule, following)


def jitter_of(schedule: int, instant: datetime, jitter_ms: int) -> timedelta:
    """The delay of an occurrence: deterministic, and spread evenly over the schedule's jitter."""
    digest = hashlib.blake2b(f"{schedule}/{to_us(instant)}".encode(), digest_size=8).digest()
    return timedelta(milliseconds=int.from_bytes(digest, "big") % (jitter_ms + 1))
