"""`client.schedules`: recurring work.

    await client.schedules.add("backup", command=["backup.sh"], daily="02:30", zone="Europe/Berlin")

What to run is a task's keyword arguments, or `tasks=[TaskSpec(…), …]`, a graph that `graph=` names. Local files
(`upload=Path(…)`) are uploaded first and kept as long as the schedule.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

from rota.client._async.sender import AsyncPart
from rota.client.calls import schedule_calls
from rota.client.calls.artifact_calls import planned_uploads
from rota.client.calls.schedule_calls import Instant, ScheduleArguments, ScheduleChange
from rota.client.options import TaskSpec
from rota.client.transport.awaiting import in_thread
from rota.model.answers.schedules import (
    AppliedSchedule,
    Backfilled,
    OccurrenceDocument,
    OccurrencePage,
    ScheduleDocument,
    SchedulePreview,
)


class AsyncSchedules(AsyncPart):
    """`client.schedules`: add, apply, preview, get, list, edit, remove, pause, resume, run_now, skip_next, next,
    history, backfill.
    """

    async def add(
        self,
        name: str,
        *,
        command: Sequence[str] | None = None,
        tasks: Sequence[TaskSpec] | None = None,
        **options: Any,
    ) -> ScheduleDocument:
        """Makes a schedule: what to run, as for `submit`, and when (`daily="02:30"`, `zone=…`; see ScheduleOptions)."""
        given = ScheduleArguments.of_add(command, tasks, options)
        work = given.work(await self._client.with_uploads(given.specs))
        return await self._client.perform(schedule_calls.add(name, given.options, work))

    async def apply(
        self,
        name: str,
        *,
        command: Sequence[str] | None = None,
        tasks: Sequence[TaskSpec] | None = None,
        version: int | None = None,
        **options: Any,
    ) -> AppliedSchedule:
        """Makes the schedule, or changes it to be as described here; the same again changes nothing.

        The arguments are those of `add`. The answer's `result` is created, changed or unchanged, its `changes` name the
        fields. With `version`, `Refused` if the schedule has changed since.
        """
        given = ScheduleArguments.of_add(command, tasks, options)
        work = given.work(await self._client.with_uploads(given.specs))
        return await self._client.perform(schedule_calls.apply(name, given.options, work, version))

    async def preview(
        self,
        name: str,
        *,
        command: Sequence[str] | None = None,
        tasks: Sequence[TaskSpec] | None = None,
        amount: int = 5,
        **options: Any,
    ) -> SchedulePreview:
        """What `apply` would do, the next `amount` runs, and what a run would meet now. Nothing is stored."""
        given = ScheduleArguments.of_add(command, tasks, options)
        specs, uploads = await in_thread(planned_uploads, given.specs)
        call = schedule_calls.preview(name, given.options, given.work(specs), uploads=uploads, amount=amount)
        return await self._client.perform(call)

    async def get(self, name: str) -> ScheduleDocument:
        return await self._client.perform(schedule_calls.schedule(name))

    async def list(self) -> builtins.list[ScheduleDocument]:
        """All schedules, ordered by name."""
        schedules: builtins.list[ScheduleDocument] = []
        page = await self._client.perform(schedule_calls.schedules(limit=1000))
        while True:
            schedules += page.schedules
            if page.next is None:
                return schedules
            page = await self._client.perform(schedule_calls.schedules(limit=1000, after=page.next))

    async def edit(self, name: str, version: int, **options: Unpack[ScheduleChange]) -> ScheduleDocument:
        """Changes the given options, if `version` is still the schedule's version; `Refused` if not."""
        given = ScheduleArguments.of_edit(options)
        work = given.work(await self._client.with_uploads(given.specs)) if given.specs else None
        return await self._client.perform(schedule_calls.edit(name, version, given.options, work))

    async def remove(self, name: str) -> None:
        await self._client.perform(schedule_calls.remove(name))

    async def pause(self, name: str) -> ScheduleDocument:
        return await self._client.perform(schedule_calls.pause(name))

    async def resume(self, name: str) -> ScheduleDocument:
        return await self._client.perform(schedule_calls.resume(name))

    async def run_now(self, name: str) -> OccurrenceDocument:
        """Starts a run at once, beside the scheduled ones."""
        return await self._client.perform(schedule_calls.run_now(name))

    async def skip_next(self, name: str) -> ScheduleDocument:
        """Skips the next run."""
        return await self._client.perform(schedule_calls.skip_next(name))

    async def next(self, name: str, amount: int = 10) -> builtins.list[datetime]:
        """The times of the next runs."""
        return (await self._client.perform(schedule_calls.next_runs(name, amount))).next

    async def history(self, name: str, *, limit: int = 50, before: str | None = None) -> OccurrencePage:
        """One page of past occurrences, newest first: runs, and skips with their reasons."""
        return await self._client.perform(schedule_calls.history(name, limit=limit, before=before))

    async def backfill(self, name: str, start: Instant, end: Instant) -> Backfilled:
        """Runs it for the past instants from `start` to `end` that had no run."""
        return await self._client.perform(schedule_calls.backfill(name, start, end))
