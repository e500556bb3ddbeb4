"""What a client says of a schedule, as JSON: to make one all of it, to edit one only what changes.

Exactly one of the rule's names is given. `task` is one task or array, `tasks` a graph, which is called `graph`, else as
the schedule.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from rota.model.request.task_request import TaskRequest


class ScheduleRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str | UnsetType = UNSET

    at: str | UnsetType = UNSET
    hourly: int | str | UnsetType = UNSET  # the minute
    daily: str | UnsetType = UNSET
    weekly: str | UnsetType = UNSET
    monthly: str | UnsetType = UNSET
    annually: str | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    every: int | str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    anchor: str | UnsetType = UNSET  # of every

    task: TaskRequest | UnsetType = UNSET
    tasks: list[TaskRequest] | UnsetType = UNSET
    graph: str | UnsetType = UNSET  # of tasks: what their graph is called

    missed: str | UnsetType = UNSET
    missed_limit: int | UnsetType = UNSET
    overlap: str | UnsetType = UNSET
    jitter: int | float | str | UnsetType = UNSET
    at_most: int | UnsetType | None = UNSET
    ends_at: str | UnsetType | None = UNSET
    max_runs: int | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET

    next_at: str | UnsetType = UNSET  # edits only: the next run, moved
    version: int | UnsetType = UNSET  # edits only: the version that was read


class ScheduledWork(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every run submits, as it is kept. Without a graph's name it is one task."""

    tasks: list[TaskRequest]
    graph: str | None = None


class BackfillRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    from_: str
    to: str
