"""Schedules of one's tenant: the calls, their answers, and `client.schedules` in both faces.

    client.schedules.add("backup", command=["backup.sh"], daily="02:30", zone="Europe/Berlin")

The words are those of `ScheduleRequest`. What to run is a task's keyword arguments, or `tasks=[TaskSpec(…), …]`, a
graph that `graph=` names. Files that are here (`upload=Path(…)`) are uploaded first, and kept as long as the schedule.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypedDict, Unpack
from urllib.parse import quote

from rota.client.calls.task_calls import Answer, Call, get, patch, post
from rota.client.options import Duration, TaskSpec, request_of
from rota.model.answers.schedules import (
    Backfilled,
    NextRuns,
    OccurrenceDocument,
    OccurrencePage,
    ScheduleDocument,
    SchedulePage,
)
from rota.model.request.task_request import TaskRequest

Instant = str | datetime


class ScheduleOptions(TypedDict, total=False):
    """When, and what about missed and overlapping runs. Exactly one of the first eight makes a rule."""

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
    next_at: Instant  # the next run, moved
    task: TaskSpec
    tasks: Sequence[TaskSpec]
    graph: str  # of tasks: what their graph is called; else as the schedule


@dataclass(frozen=True, slots=True)
class Work:
    """What a run starts: one task, or a graph of tasks (None: called as the schedule)."""

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
    return replace(encoded, repeatable=False)  # said twice, the version would have changed


def schedules(*, limit: int | None = None, after: str | None = None) -> Call[SchedulePage]:
    return get("/v1/schedules", SchedulePage, {"limit": limit, "after": after})


def schedule(name: str) -> Call[ScheduleDocument]:
    return get(_path(name), ScheduleDocument)


def remove(name: str) -> Call[None]:
    return Call("DELETE", _path(name), lambda _: None)


def pause(name: str) -> Call[ScheduleDocument]:
    return post(f"{_path(name)}/pause", ScheduleDocument, repeatable=True)


def resume(name: str) -> Call[ScheduleDocument]:
    return post(f"{_path(name)}/resume", ScheduleDocument, repeatable=True)


def skip_next(name: str) -> Call[ScheduleDocument]:
    return post(f"{_path(name)}/skip-next", ScheduleDocument)


def run_now(name: str) -> Call[OccurrenceDocument]:
    return post(f"{_path(name)}/run", OccurrenceDocument)


def backfill(name: str, start: Instant, end: Instant) -> Call[Backfilled]:
    """Repeatable: an instant that has its run gets no second one."""
    body = {"from": _text(start), "to": _text(end)}
    return post(f"{_path(name)}/backfill", Backfilled, body, repeatable=True)


def next_runs(name: str, amount: int = 10) -> Call[NextRuns]:
    return get(f"{_path(name)}/next", NextRuns, {"n": amount})


def history(name: str, *, limit: int | None = None, before: str | None = None) -> Call[OccurrencePage]:
    return get(f"{_path(name)}/history", OccurrencePage, {"limit": limit, "before": before})


def _path(name: str) -> str:
    return f"/v1/schedules/{quote(name, safe='')}"


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(value) for name, value in options.items()}


def _text(value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():.6f}S"
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True, slots=True)
class _Said:
    """An addition or a change in the caller's words: what is to run apart from the rest."""

    when: Any  # ScheduleOptions or ScheduleChange
    specs: Sequence[TaskSpec] = ()
    is_graph: bool = False
    graph: str | None = None

    def work(self, specs: Sequence[TaskSpec]) -> Work | None:
        return Work([request_of(one) for one in specs], self.is_graph, self.graph) if specs else None


def _adding(command: Sequence[str] | None, tasks: Sequence[TaskSpec] | None, said: Mapping[str, Any]) -> _Said:
    when = {key: said[key] for key in said if key in ScheduleOptions.__annotations__}
    work = {key: said[key] for key in said if key not in ScheduleOptions.__annotations__ and key != "graph"}
    if tasks is not None:
        if work or command is not None:
            raise TypeError("give one task's arguments, or tasks=, not both")
        return _Said(when, tasks, True, said.get("graph"))
    if "graph" in said:
        raise TypeError("graph= names the graph of tasks=; one task is none")
    return _Said(when, [{**work, "command": command}])  # type: ignore[typeddict-item]


def _editing(said: ScheduleChange) -> _Said:
    when = {key: value for key, value in said.items() if key not in ("task", "tasks", "graph")}
    if "tasks" in said:
        return _Said(when, said["tasks"], True, said.get("graph"))
    return _Said(when, [said["task"]] if "task" in said else ())


class Performs(Protocol):
    def perform(self, call: Call[Answer]) -> Answer: ...
    def with_uploads(self, specs: Sequence[TaskSpec]) -> Sequence[TaskSpec]: ...


class AsyncPerforms(Protocol):
    async def perform(self, call: Call[Answer]) -> Answer: ...
    async def with_uploads(self, specs: Sequence[TaskSpec]) -> Sequence[TaskSpec]: ...


class Schedules:
    """`client.schedules`."""

    def __init__(self, client: Performs) -> None:
        self._client = client

    def add(
        self, name: str, *, command: Sequence[str] | None = None, tasks: Sequence[TaskSpec] | None = None, **said: Any
    ) -> ScheduleDocument:
        """A new schedule: what to run as for `submit`, and when (`daily="02:30"`, `zone=…`; see ScheduleOptions)."""
        wanted = _adding(command, tasks, said)
        work = wanted.work(self._client.with_uploads(wanted.specs))
        if work is None:
            raise TypeError("tasks= is empty; give at least one")
        return self._client.perform(add(name, wanted.when, work))

    def get(self, name: str) -> ScheduleDocument:
        return self._client.perform(schedule(name))

    def list(self) -> builtins.list[ScheduleDocument]:
        """All of them, by name."""
        found: builtins.list[ScheduleDocument] = []
        page = self._client.perform(schedules(limit=1000))
        while True:
            found += page.schedules
            if page.next is None:
                return found
            page = self._client.perform(schedules(limit=1000, after=page.next))

    def edit(self, name: str, version: int, **said: Unpack[ScheduleChange]) -> ScheduleDocument:
        """Changes what is given, if `version` is still the schedule's."""
        wanted = _editing(said)
        work = wanted.work(self._client.with_uploads(wanted.specs))
        return self._client.perform(edit(name, version, wanted.when, work))

    def remove(self, name: str) -> None:
        self._client.perform(remove(name))

    def pause(self, name: str) -> ScheduleDocument:
        return self._client.perform(pause(name))

    def resume(self, name: str) -> ScheduleDocument:
        return self._client.perform(resume(name))

    def run_now(self, name: str) -> OccurrenceDocument:
        return self._client.perform(run_now(name))

    def skip_next(self, name: str) -> ScheduleDocument:
        return self._client.perform(skip_next(name))

    def next(self, name: str, amount: int = 10) -> builtins.list[datetime]:
        return self._client.perform(next_runs(name, amount)).next

    def history(self, name: str, *, limit: int = 50, before: str | None = None) -> OccurrencePage:
        return self._client.perform(history(name, limit=limit, before=before))

    def backfill(self, name: str, start: Instant, end: Instant) -> Backfilled:
        return self._client.perform(backfill(name, start, end))


class AsyncSchedules:
    """`client.schedules` of the awaiting client."""

    def __init__(self, client: AsyncPerforms) -> None:
        self._client = client

    async def add(
        self, name: str, *, command: Sequence[str] | None = None, tasks: Sequence[TaskSpec] | None = None, **said: Any
    ) -> ScheduleDocument:
        """A new schedule: what to run as for `submit`, and when (`daily="02:30"`, `zone=…`; see ScheduleOptions)."""
        wanted = _adding(command, tasks, said)
        work = wanted.work(await self._client.with_uploads(wanted.specs))
        if work is None:
            raise TypeError("tasks= is empty; give at least one")
        return await self._client.perform(add(name, wanted.when, work))

    async def get(self, name: str) -> ScheduleDocument:
        return await self._client.perform(schedule(name))

    async def list(self) -> builtins.list[ScheduleDocument]:
        """All of them, by name."""
        found: builtins.list[ScheduleDocument] = []
        page = await self._client.perform(schedules(limit=1000))
        while True:
            found += page.schedules
            if page.next is None:
                return found
            page = await self._client.perform(schedules(limit=1000, after=page.next))

    async def edit(self, name: str, version: int, **said: Unpack[ScheduleChange]) -> ScheduleDocument:
        """Changes what is given, if `version` is still the schedule's."""
        wanted = _editing(said)
        work = wanted.work(await self._client.with_uploads(wanted.specs))
        return await self._client.perform(edit(name, version, wanted.when, work))

    async def remove(self, name: str) -> None:
        await self._client.perform(remove(name))

    async def pause(self, name: str) -> ScheduleDocument:
        return await self._client.perform(pause(name))

    async def resume(self, name: str) -> ScheduleDocument:
        return await self._client.perform(resume(name))

    async def run_now(self, name: str) -> OccurrenceDocument:
        return await self._client.perform(run_now(name))

    async def skip_next(self, name: str) -> ScheduleDocument:
        return await self._client.perform(skip_next(name))

    async def next(self, name: str, amount: int = 10) -> builtins.list[datetime]:
        return (await self._client.perform(next_runs(name, amount))).next

    async def history(self, name: str, *, limit: int = 50, before: str | None = None) -> OccurrencePage:
        return await self._client.perform(history(name, limit=limit, before=before))

    async def backfill(self, name: str, start: Instant, end: Instant) -> Backfilled:
        return await self._client.perform(backfill(name, start, end))
