"""The request for a schedule, as JSON: whole for a new one, the changed fields for an edit.

Exactly one of the rules is given. `task` is one task or array, `tasks` a graph; `graph` names it, by default as the
schedule.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from rota.model.request.preview_request import PlannedUpload
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
    graph: str | UnsetType = UNSET  # the name of the graph of `tasks`

    missed: str | UnsetType = UNSET
    missed_limit: int | UnsetType = UNSET
    overlap: str | UnsetType = UNSET
    jitter: int | float | str | UnsetType = UNSET
    at_most: int | UnsetType | None = UNSET
    ends_at: str | UnsetType | None = UNSET
    max_runs: int | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET

    next_at: str | UnsetType = UNSET  # edits only: the moved next run
    version: int | UnsetType = UNSET  # edits only: the version that was read


class SchedulePreviewRequest(ScheduleRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    uploads: list[PlannedUpload] = msgspec.field(default_factory=list)  # local files that would be uploaded first


class ScheduledWork(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every run submits, as it is stored. Without a graph's name it is one task."""

    tasks: list[TaskRequest]
    graph: str | None = None


class BackfillRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    from_: str
    to: str
