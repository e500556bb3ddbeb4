"""The words of schedules: when (a rule in a zone), what to do about missed and overlapping runs, how a run came about.

A rule is kept as it was written; `schedule_rules` reads it, `rota.timetable.occurrences` walks it. An instant
is always UTC; only the rule knows of local time.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta


class RuleKind(enum.StrEnum):
    AT = "at"  # once: 2030-01-01T00:00Z
    HOURLY = "hourly"  # at a minute of every hour: 15
    DAILY = "daily"  # 02:30
    WEEKLY = "weekly"  # mon@08:00, or mon,thu@08:00
    MONTHLY = "monthly"  # 1@00:00; a day that a month lacks is its last
    ANNUALLY = "annually"  # 01-01@00:00; 02-29 is the last of February in common years
    CRON = "cron"  # */15 9-17 * * 1-5
    EVERY = "every"  # PT3H from an anchor on: elapsed time, whatever the clocks on the wall do


@dataclass(frozen=True, slots=True)
class Rule:
    kind: RuleKind
    text: str
    zone: str = "UTC"
    anchor: datetime | None = None  # of EVERY: some instant of it, from which the others are counted


class Missed(enum.StrEnum):
    """What to do about instants that passed while nobody could act on them."""

    SKIP = "skip"
    ONCE = "once"  # the latest of them
    ALL = "all"  # the latest `missed_limit` of them


class Overlap(enum.StrEnum):
    """What to do when the last run still goes on."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"  # the new run comes after it
    REPLACE = "replace"  # it is cancelled, and the new run comes after it


class Trigger(enum.IntEnum):
    """What made a run."""

    TIME = 1
    MANUAL = 2
    BACKFILL = 3

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class ScheduledFor:
    """What a task of a schedule is told: its instant, and the interval since the instant before."""

    schedule: int
    instant: datetime
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A row. What its owner says first, then where it stands."""

    tenant: int
    name: str
    user: str
    rule: Rule
    request: str
    missed: Missed = Missed.ONCE
    missed_limit: int = 100
    overlap: Overlap = Overlap.ALLOW
    jitter_ms: int = 0
    at_most: int | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None
    paused: bool = False
    artifacts: tuple[bytes, ...] = ()  # digests of what its tasks name
    next_at: datetime | None = None
    moved_from: datetime | None = None
    previous_at: datetime | None = None
    id: int = 0
    runs: int = 0
    last_tasks: tuple[int, ...] = ()
    last_graph: int | None = None  # what those are, unless one task
    version: int = 1
    created_at: datetime | None = None
    changed_at: datetime | None = None


def a_moment(instant: datetime) -> datetime:
    """The smallest step past an instant."""
    return instant + timedelta(microseconds=1)
