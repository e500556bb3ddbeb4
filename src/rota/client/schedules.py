"""Schedules of one's tenant: the calls, their answers, and `client.schedules` in both faces.

    client.schedules.add("backup", command=["backup.sh"], daily="02:30", zone="Europe/Berlin")

The words are those of `ScheduleRequest`. What to run is a task's keyword arguments, or `tasks=[TaskSpec(…), …]`.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypedDict, Unpack
from urllib.parse import quote

import msgspec

from rota.client.calls import Answer, Call, get, patch, post
from rota.client.options import Duration, TaskSpec, request_of
from rota.model.request import TaskRequest

Instant = str | datetime


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
    user: str = ""
    version: int = 1
    created_at: datetime | None = None
    changed_at: datetime | None = None
    tasks: list[dict[str, Any]] = []


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleDocument]
    next: str | None = None


class OccurrenceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A run, with its tasks, or a skip with its reason; of a skip, all instants from `instant` to before `until`."""

    instant: datetime
    until: datetime | None = None
    trigger: str = ""
    tasks: list[int] | None = None
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


def add(name: str, options: ScheduleOptions, tasks: Sequence[TaskRequest], *, graph: bool) -> Call[ScheduleDocument]:
    return post("/v1/schedules", ScheduleDocument, {"name": name, **_plain(options), **_work(tasks, graph)})


def edit(
    name: str, version: int, options: ScheduleChange, tasks: Sequence[TaskRequest] = (), *, graph: bool = False
) -> Call[ScheduleDocument]:
    body = {**_plain(options), **(_work(tasks, graph) if tasks else {}), "version": version}
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


def _work(tasks: Sequence[TaskRequest], graph: bool) -> dict[str, Any]:
    return {"tasks": list(tasks)} if graph else {"task": tasks[0]}


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(value) for name, value in options.items()}


def _text(value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():.6f}S"
    return value.isoformat() if isinstance(value, datetime) else value


def _adding(
    name: str, command: Sequence[str] | None, tasks: Sequence[TaskSpec] | None, said: Mapping[str, Any]
) -> Call[ScheduleDocument]:
    when = {key: said[key] for key in said if key in ScheduleOptions.__annotations__}
    work = {key: said[key] for key in said if key not in ScheduleOptions.__annotations__}
    if tasks is not None:
        if work or command is not None:
            raise TypeError("give one task's arguments, or tasks=, not both")
        return add(name, when, [request_of(one) for one in tasks], graph=True)  # type: ignore[arg-type]
    return add(name, when, [request_of({**work, "command": command})], graph=False)  # type: ignore[arg-type,typeddict-item]


def _editing(name: str, version: int, said: ScheduleChange) -> Call[ScheduleDocument]:
    when: Any = {key: value for key, value in said.items() if key not in ("task", "tasks")}
    if "tasks" in said:
        return edit(name, version, when, [request_of(one) for one in said["tasks"]], graph=True)
    if "task" in said:
        return edit(name, version, when, [request_of(said["task"])])
    return edit(name, version, when)


class Performs(Protocol):
    def perform(self, call: Call[Answer]) -> Answer: ...


class AsyncPerforms(Protocol):
    async def perform(self, call: Call[Answer]) -> Answer: ...


class Schedules:
    """`client.schedules`."""

    def __init__(self, client: Performs) -> None:
        self._client = client

    def add(
        self, name: str, *, command: Sequence[str] | None = None, tasks: Sequence[TaskSpec] | None = None, **said: Any
    ) -> ScheduleDocument:
        """A new schedule: what to run as for `submit`, and when (`daily="02:30"`, `zone=…`; see ScheduleOptions)."""
        return self._client.perform(_adding(name, command, tasks, said))

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
        return self._client.perform(_editing(name, version, said))

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
        return await self._client.perform(_adding(name, command, tasks, said))

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
        return await self._client.perform(_editing(name, version, said))

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
