"""Schedules, their occurrences, and the instants ahead."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class ScheduleDocument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    id: int = 0
    state: str = ""  # active, paused, ended
    rule: dict[str, str] = {}
    zone: str = "UTC"
    anchor: datetime | None = None
    next_at: datetime | None = None
    missed: str = ""
    missed_limit: int = 0
    overlap: str = ""
    jitter_seconds: float = 0.0
    at_most: int | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None
    runs: int = 0
    paused: bool = False
    last_tasks: list[int] = []
    last_graph: int | None = None
    user: str = ""
    version: int = 1
    created_at: datetime | None = None
    changed_at: datetime | None = None
    tasks: list[dict[str, Any]] = []
    graph: str | None = None  # what the tasks' graph is called; None: it starts one task
    artifacts: list[str] = []  # kept as long as the schedule


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleDocument]
    next: str | None = None


class OccurrenceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A run, with its tasks, or a skip with its reason; of a skip, all instants from `instant` to before `until`."""

    instant: datetime
    until: datetime | None = None
    trigger: str = ""
    tasks: list[int] | None = None
    graph: int | None = None  # what the tasks are, unless one
    status: str | None = None  # of the whole run, in a history
    skipped: str | None = None
    at: datetime | None = None


class OccurrencePage(msgspec.Struct, frozen=True, kw_only=True):
    occurrences: list[OccurrenceDocument]
    next: str | None = None


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    occurrences: list[OccurrenceDocument]
    already: list[datetime] = []  # had their run before


class NextRuns(msgspec.Struct, frozen=True, kw_only=True):
    next: list[datetime]
    zone: str = "UTC"
    paused: bool = False
