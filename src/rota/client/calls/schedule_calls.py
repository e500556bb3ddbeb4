"""The requests about a tenant's schedules. The option names are those of `ScheduleRequest`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypedDict

from rota.client.calls.call import Call, delete, get, patch, post, put, query_of, segment
from rota.client.options import Duration, TaskSpec, request_of
from rota.model.answers.schedules import (
    AppliedSchedule,
    Backfilled,
    NextRuns,
    OccurrenceDocument,
    OccurrencePage,
    ScheduleDocument,
    SchedulePage,
    SchedulePreview,
)
from rota.model.request.preview_request import PlannedUpload
from rota.model.request.task_request import TaskRequest

Instant = str | datetime


class ScheduleOptions(TypedDict, total=False):
    """The rule (exactly one of the first eight fields), and the policies for missed and overlapping runs."""

    at: Instant
    hourly: int | str
    daily: str
    weekly: str
    monthly: str
    annually: str
    cron: str
    every: Duration
    zone: str
    anchor: Instant
    missed: str
    missed_limit: int
    overlap: str
    jitter: Duration
    at_most: int | None
    ends_at: Instant | None
    max_runs: int | None
    paused: bool


class ScheduleChange(ScheduleOptions, total=False):
    next_at: Instant  # moves the next run
    task: TaskSpec
    tasks: Sequence[TaskSpec]
    graph: str  # the name of the graph of `tasks`; the schedule's name unless given


@dataclass(frozen=True, slots=True)
class Work:
    """The tasks of a run: one, or a graph (`graph` None: named as the schedule)."""

    tasks: Sequence[TaskRequest]
    is_graph: bool = False
    graph: str | None = None

    def body(self) -> dict[str, Any]:
        if not self.is_graph:
            return {"task": self.tasks[0]}
        return {"tasks": list(self.tasks)} | ({} if self.graph is None else {"graph": self.graph})


def add(name: str, options: ScheduleOptions, work: Work) -> Call[ScheduleDocument]:
    return post("/v1/schedules", ScheduleDocument, {"name": name, **_plain(options), **work.body()})


def edit(name: str, version: int, options: ScheduleChange, work: Work | None = None) -> Call[ScheduleDocument]:
    body = {**_plain(options), **({} if work is None else work.body()), "version": version}
    encoded = patch(_path(name), ScheduleDocument, body)
    return replace(encoded, repeatable=False)  # the first one changes the version


def apply(name: str, options: ScheduleOptions, work: Work, version: int | None = None) -> Call[AppliedSchedule]:
    """Repeatable without a version: the second time nothing changes."""
    guard = {} if version is None else {"version": version}
    encoded = put(_path(name), AppliedSchedule, {**_plain(options), **work.body(), **guard})
    return replace(encoded, repeatable=version is None)


def preview(
    name: str, options: ScheduleOptions, work: Work, *, uploads: Sequence[PlannedUpload] = (), amount: int = 5
) -> Call[SchedulePreview]:
    """`uploads`: local files that would be uploaded first; `amount`: of the runs to come."""
    files = {"uploads": list(uploads)} if uploads else {}
    body = {"name": name, **_plain(options), **work.body(), **files}
    asked = post("/v1/schedules/preview", SchedulePreview, body, repeatable=True)
    return replace(asked, query=query_of({"n": amount}))


def schedules(*, limit: int | None = None, after: str | None = None) -> Call[SchedulePage]:
    return get("/v1/schedules", SchedulePage, {"limit": limit, "after": after})


def schedule(name: str) -> Call[ScheduleDocument]:
    return get(_path(name), ScheduleDocument)


def remove(name: str) -> Call[None]:
    return delete(_path(name))


def pause(name: str) -> Call[ScheduleDocument]:
    return post(f"{_path(name)}/pause", ScheduleDocument, repeatable=True)


def resume(name: str) -> Call[ScheduleDocument]:
    return post(f"{_path(name)}/resume", ScheduleDocument, repeatable=True)


def skip_next(name: str) -> Call[ScheduleDocument]:
    return post(f"{_path(name)}/skip-next", ScheduleDocument)


def run_now(name: str) -> Call[OccurrenceDocument]:
    return post(f"{_path(name)}/run", OccurrenceDocument)


def backfill(name: str, start: Instant, end: Instant) -> Call[Backfilled]:
    """Repeatable: an instant that has a run gets no second one."""
    body = {"from": _text(start), "to": _text(end)}
    return post(f"{_path(name)}/backfill", Backfilled, body, repeatable=True)


def next_runs(name: str, amount: int = 10) -> Call[NextRuns]:
    return get(f"{_path(name)}/next", NextRuns, {"n": amount})


def history(name: str, *, limit: int | None = None, before: str | None = None) -> Call[OccurrencePage]:
    return get(f"{_path(name)}/history", OccurrencePage, {"limit": limit, "before": before})


def _path(name: str) -> str:
    return f"/v1/schedules/{segment(name)}"


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(value) for name, value in options.items()}


def _text(value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():.6f}S"
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True, slots=True)
class ScheduleArguments:
    """The arguments of `add` or `edit`, with the tasks to run apart from the schedule's own options."""

    options: Any  # ScheduleOptions or ScheduleChange
    specs: Sequence[TaskSpec] = ()
    is_graph: bool = False
    graph: str | None = None

    @staticmethod
    def of_add(
        command: Sequence[str] | None, tasks: Sequence[TaskSpec] | None, given: Mapping[str, Any]
    ) -> ScheduleArguments:
        options = {key: given[key] for key in given if key in ScheduleOptions.__annotations__}
        spec = {key: given[key] for key in given if key not in ScheduleOptions.__annotations__ and key != "graph"}
        if tasks is None:
            if "graph" in given:
                raise TypeError("graph= names the graph of tasks=; one task has no graph")
            return ScheduleArguments(options, [{**spec, "command": command}])  # type: ignore[typeddict-item]
        if spec or command is not None:
            raise TypeError("give one task's arguments, or tasks=, not both")
        if not tasks:
            raise TypeError("tasks= is empty; give at least one task")
        return ScheduleArguments(options, tasks, True, given.get("graph"))

    @staticmethod
    def of_edit(given: ScheduleChange) -> ScheduleArguments:
        options = {key: value for key, value in given.items() if key not in ("task", "tasks", "graph")}
        if "tasks" in given:
            return ScheduleArguments(options, given["tasks"], True, given.get("graph"))
        return ScheduleArguments(options, [given["task"]] if "task" in given else ())

    def work(self, specs: Sequence[TaskSpec]) -> Work:
        """`specs`: the same tasks, after their files were uploaded."""
        return Work([request_of(spec) for spec in specs], self.is_graph, self.graph)
