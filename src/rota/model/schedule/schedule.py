"""A schedule: its rule in a time zone, its policies for missed and overlapping runs, its cursor.

A rule is stored as it was written; `rules.py` parses it, `rota.timetable.occurrences` computes its instants. An instant
is always UTC; only the rule knows local time.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.model.task import Labelled


class RuleKind(enum.StrEnum):
    AT = "at"  # once: 2030-01-01T00:00Z
    HOURLY = "hourly"  # at a minute of every hour: 15
    DAILY = "daily"  # 02:30
    WEEKLY = "weekly"  # mon@08:00, or mon,thu@08:00
    MONTHLY = "monthly"  # 1@00:00; the last day of a month that has no such day
    ANNUALLY = "annually"  # 01-01@00:00; 02-29 means 02-28 in common years
    CRON = "cron"  # */15 9-17 * * 1-5
    EVERY = "every"  # PT3H from an anchor: elapsed time, independent of time zones


@dataclass(frozen=True, slots=True)
class Rule:
    kind: RuleKind
    text: str
    zone: str = "UTC"
    anchor: datetime | None = None  # of EVERY: an instant from which the others are counted


class Missed(enum.StrEnum):
    """What to do about instants that passed while no server node could act on them."""

    SKIP = "skip"
    ONCE = "once"  # the latest of them
    ALL = "all"  # the latest `missed_limit` of them


class Overlap(enum.StrEnum):
    """What to do if the last run has not ended."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"  # the new run waits for the last one
    REPLACE = "replace"  # the last run is cancelled, and the new run waits for its end


class Trigger(Labelled):
    """What caused a run."""

    TIME = 1
    MANUAL = 2
    BACKFILL = 3


@dataclass(frozen=True, slots=True)
class ScheduledFor:
    """What a scheduled task learns: its instant, and the interval since the previous instant."""

    schedule: int
    instant: datetime
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A row of `schedules`: the owner's choices first, then its progress."""

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
    artifacts: tuple[bytes, ...] = ()  # digests of the artifacts that its tasks name
    next_at: datetime | None = None
    moved_from: datetime | None = None
    previous_at: datetime | None = None
    id: int = 0
    runs: int = 0
    last_tasks: tuple[int, ...] = ()
    last_graph: int | None = None  # the graph of `last_tasks`, unless there is one task
    version: int = 1
    created_at: datetime | None = None
    changed_at: datetime | None = None


def a_moment_before(instant: datetime) -> datetime:
    """The instant one microsecond earlier."""
    return instant - timedelta(microseconds=1)


def a_moment(instant: datetime) -> datetime:
    """The instant one microsecond later."""
    return instant + timedelta(microseconds=1)
