"""Schedules, their occurrences, and the instants ahead."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.model.answers.fields import MayBeAbsent, Time
from rota.model.answers.waiting import PreviewDocument, Refusal


class ScheduleDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, with the version that an edit must name."""

    name: str
    id: int = 0
    state: str = ""  # active, paused, ended
    rule: dict[str, str] = {}
    zone: str = "UTC"
    anchor: Time | None = None
    next_at: Time | None = None
    missed: str = ""
    missed_limit: int = 0
    overlap: str = ""
    jitter_seconds: float = 0.0
    at_most: int | None = None
    ends_at: Time | None = None
    max_runs: int | None = None
    runs: int = 0
    paused: bool = False
    last_tasks: list[int] = []
    last_graph: int | None = None
    user: str = ""
    version: int = 1
    created_at: Time | None = None
    changed_at: Time | None = None
    tasks: list[dict[str, Any]] = []
    graph: str | None = None  # name of the graph of each run; null: a run is one task
    artifacts: list[str] = []  # kept as long as the schedule


class AppliedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """What applying did: `created`, `changed` or `unchanged`, with each changed field, before and after."""

    result: str
    changes: dict[str, tuple[Any, Any]] = {}
    schedule: ScheduleDocument


class ComingRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to come, with the interval that its tasks learn. With jitter it starts by `starts_by`."""

    instant: Time
    starts_by: Time | None = None
    interval_start: Time | None = None
    interval_end: Time | None = None
    runs: str = ""  # what it runs, in a few words


class SchedulePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a schedule would do. `run`: what a run would meet if it were submitted now."""

    accepted: bool
    name: str = ""
    result: str = ""
    changes: dict[str, tuple[Any, Any]] = {}
    refusals: list[Refusal] = []
    rule: dict[str, str] = {}
    zone: str = "UTC"
    paused: bool = False
    next: list[ComingRun] = []
    notes: list[str] = []
    run: PreviewDocument | None = None


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, by name. `next` is the last name, for `after` of the next request; null on the last page."""

    schedules: list[ScheduleDocument]
    next: str | None = None


class OccurrenceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A run, with its tasks, or a skip with its reason; of a skip, all instants from `instant` to before `until`."""

    instant: Time
    until: Time | None = None
    trigger: str = ""
    tasks: list[int] | None = None
    graph: int | None = None  # of a run of several tasks
    status: MayBeAbsent[str | None] = None  # of the whole run; only in a history
    skipped: str | None = None
    at: Time | None = None


class OccurrencePage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first. `next` is the last instant, for `before` of the next request; null on the last page."""

    occurrences: list[OccurrenceDocument]
    next: str | None = None


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that were made, and the instants that had one before."""

    occurrences: list[OccurrenceDocument]
    already: list[Time] = []


class NextRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The next instants of a schedule."""

    next: list[Time]
    zone: str = "UTC"
    paused: bool = False
