"""Making runs: instants of schedules become tasks, in the transaction of whoever decided that they are due.

The ticker, a manual run and a backfill all come here, holding the schedules' rows. An instant becomes tasks only if its
occurrence row is new; tasks, queue and edges are copied beside it, so all of it is there or nothing is. Leaders hear of
it after the commit (`announce`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

import msgspec

from rota.admit.admission import Admission
from rota.admit.boarding import Landed, Load, place
from rota.admit.drafts import Draft, RowMaker, draft_batch
from rota.admit.facts import World
from rota.admit.rate_limit import check_rate, check_waiting
from rota.admit.world import WorldView
from rota.model.clock import EPOCH
from rota.model.errors import Problem
from rota.model.request import BatchRequest, TaskRequest
from rota.model.schedule import Overlap, Schedule, ScheduledFor, Trigger
from rota.model.task import Upstream
from rota.model.tenant import Caller
from rota.store import admission as rows
from rota.store import schedules
from rota.store.admission import Parent
from rota.store.database import AnyConnection, Database
from rota.store.editing import Cancelled, cancel_tasks
from rota.store.schedules import Occurrence
from rota.timetable.due import jitter_of

LANE = "periodic"
SLICE = 100  # runs drafted or written between two turns of the loop


@dataclass(frozen=True, slots=True)
class Wanted:
    """An instant that is due, and where its interval begins."""

    schedule: Schedule
    instant: datetime
    start: datetime
    trigger: Trigger = Trigger.TIME


@dataclass(slots=True)
class Made:
    """What a batch wrote: told to the leaders once it is committed."""

    occurrences: list[Occurrence] = field(default_factory=list)  # runs and skips, as wanted
    loads: list[tuple[Load, Landed]] = field(default_factory=list)
    cancelled: list[Cancelled] = field(default_factory=list)

    def runs_of(self, schedule: int) -> list[Occurrence]:
        return [one for one in self.occurrences if one.schedule == schedule and one.tasks is not None]


@dataclass(slots=True)
class _Run:
    wanted: Wanted
    caller: Caller
    drafts: list[Draft]
    after: list[int]  # tasks of the run before it, which it must not overlap
    ids: list[int] = field(default_factory=list)


class Runs:
    def __init__(self, database: Database, admission: Admission, world: WorldView, *, server: int) -> None:
        self._database = database
        self._admission = admission
        self._world = world
        self._server = server

    async def make(self, connection: AnyConnection, wanted: Sequence[Wanted]) -> Made:
        """Writes what is wanted, in order, inside the caller's transaction."""
        made = Made()
        if not wanted:
            return made
        # 1. Who owns them, and what of their last runs still goes on.
        owners = await schedules.read_owners(connection, (one.schedule.tenant for one in wanted))
        current = await self._current(connection, wanted)
        # 2. Each is drafted as a submission would be, or skipped with its reason.
        drafted = []
        for number, one in enumerate(wanted):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)  # others of this process have their turn
            draft = self._draft(one, owners[one.schedule.tenant], made)
            if draft is not None:
                drafted.append(draft)
        allowed = await self._within_limits(drafted, made)
        # 3. Ids, and what the overlap policy makes of each.
        runs, replaced = await self._identify(allowed, current, made)
        # 4. The occurrence first: only an instant that is new, or was skipped before, becomes tasks.
        ours = await schedules.insert_runs(connection, [_occurrence(run) for run in runs]) if runs else set()
        runs = [run for run in runs if (run.wanted.schedule.id, run.wanted.instant) in ours]
        made.occurrences += [_occurrence(run) for run in runs]
        for tenant, tasks in replaced.items():
            made.cancelled.append(await cancel_tasks(connection, tasks, tenant, "replaced by its schedule's next run"))
        # 5. The rows.
        await self._write(connection, runs, made)
        await schedules.insert_skips(connection, [one for one in made.occurrences if one.tasks is None])
        return made

    async def _current(self, connection: AnyConnection, wanted: Sequence[Wanted]) -> dict[int, list[int]]:
        """Schedule → tasks of its last run that are live, where that matters."""
        last = {one.schedule.id: one.schedule.last_tasks for one in wanted if one.schedule.overlap != Overlap.ALLOW}
        tasks = [task for own in last.values() for task in own]
        live = await schedules.live_among(connection, tasks) if tasks else set()
        return {number: [task for task in own if task in live] for number, own in last.items()}

    def _draft(self, wanted: Wanted, owner: Caller, made: Made) -> _Run | None:
        schedule = wanted.schedule
        caller = schedules.owned_by(owner, schedule.user)
        world = self._world.of(caller)
        try:
            drafts = draft_batch(requests_of(schedule, world), world, key=None, single=False)
        except (Problem, msgspec.MsgspecError) as refusal:  # judged by a later version than the one that took it
            made.occurrences.append(_skip(wanted, f"refused: {refusal}"))
            return None
        told = _told(wanted)
        later = wanted.instant + jitter_of(schedule.id, wanted.instant, schedule.jitter_ms)
        if wanted.trigger is Trigger.TIME and schedule.jitter_ms and later > world.now:  # who says "now" means now
            for draft in drafts:
                if not draft.siblings and draft.template.not_before is None:
                    draft.template = replace(draft.template, not_before=later)
        for draft in drafts:
            draft.spec = draft.spec[:-1] + told
        return _Run(wanted, caller, drafts, [])

    async def _within_limits(self, runs: list[_Run], made: Made) -> list[_Run]:
        """A plan's limits hold for scheduled tasks too; what they turn away is skipped, all of a tenant's at once."""
        tenants: dict[int, list[_Run]] = {}
        for run in runs:
            if run.caller.plan.tasks_per_hour is not None or run.caller.plan.waiting_tasks is not None:
                tenants.setdefault(run.caller.tenant_id, []).append(run)
        refused: set[int] = set()
        for tenant, own in tenants.items():
            tasks = sum(len(run.drafts) for run in own)
            try:
                await check_waiting(self._database, own[0].caller, tasks)
                await check_rate(self._database, own[0].caller, tasks)
            except Problem as refusal:
                refused.add(tenant)
                made.occurrences += [_skip(run.wanted, f"refused: {refusal.detail}") for run in own]
        return [run for run in runs if run.caller.tenant_id not in refused]

    async def _identify(
        self, runs: list[_Run], current: dict[int, list[int]], made: Made
    ) -> tuple[list[_Run], dict[int, list[int]]]:
        kept: list[_Run] = []
        replaced: dict[int, list[int]] = {}
        ids = await self._admission.ids.take(sum(len(run.drafts) for run in runs)) if runs else []
        for run in runs:
            schedule, backfill = run.wanted.schedule, run.wanted.trigger is Trigger.BACKFILL
            before = current.get(schedule.id, [])
            if before and schedule.overlap is Overlap.SKIP and not backfill:
                reason = f"overlap: task {before[0]} of the last run has not ended"
                made.occurrences.append(_skip(run.wanted, reason))
                continue
            if before and schedule.overlap is Overlap.REPLACE and not backfill:
                replaced.setdefault(schedule.tenant, []).extend(before)
            run.ids, ids = ids[: len(run.drafts)], ids[len(run.drafts) :]
            for draft, number in zip(run.drafts, run.ids, strict=True):
                draft.id = number
            if before:
                run.after = before
            if schedule.overlap is not Overlap.ALLOW:
                current[schedule.id] = run.ids
            kept.append(run)
        return kept, replaced

    async def _write(self, connection: AnyConnection, runs: list[_Run], made: Made) -> None:
        if not runs:
            return
        parents = await rows.lock_parents(connection, [task for run in runs for task in run.after])
        tasks, queue, edges = [], [], []
        for number, run in enumerate(runs):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            for draft in run.drafts:
                if run.after and not draft.siblings:
                    draft.parents = run.after
                    draft.template = replace(draft.template, upstream=Upstream.RUN)
            shapes = await self._admission.number_shapes(run.drafts)
            scheduled = ScheduledFor(run.wanted.schedule.id, run.wanted.instant, run.wanted.start, run.wanted.instant)
            maker = RowMaker(run.caller, now=self._world.now(), server=self._server, scheduled=scheduled)
            done: asyncio.Future[Landed] = asyncio.get_running_loop().create_future()
            load = Load(run.caller, run.drafts, shapes, maker, 0.0, done)
            landed, own_edges = place(load, {}, parents)
            parents |= {number: Parent(number, run.caller.tenant_id, None) for number in run.ids}
            made.loads.append((load, landed))
            edges += own_edges
            tasks += [one.task for one in landed.rows]
            queue += [one.queue for one in landed.rows]
        await rows.copy_tasks(connection, tasks)
        await rows.copy_queue(connection, queue)
        tagged = [draft.id for run in runs for draft in run.drafts if draft.template.tags is not None]
        if tagged:
            await rows.keep_tags(connection, tagged)
        if edges:
            await rows.copy_edges(connection, edges)

    def announce(self, made: Made) -> None:
        """To be called once it is committed. Lost on a crash without harm: leaders poll."""
        together: dict[int, tuple[Load, Landed]] = {}  # one word a tenant, not one a run
        for load, landed in made.loads:
            _, all_of_them = together.setdefault(load.caller.tenant_id, (load, Landed([], [])))
            all_of_them.rows += landed.rows
        for load, landed in together.values():
            self._admission.announce(load, landed)


@lru_cache(maxsize=4096)
def _decoded(text: str) -> tuple[TaskRequest, ...]:
    return tuple(msgspec.json.decode(text, type=BatchRequest).tasks)


def requests_of(schedule: Schedule, world: World) -> list[TaskRequest]:
    """What a run submits: as it was written, in the periodic lane unless it or its category says another."""
    made = []
    for request in _decoded(schedule.request):
        category = world.categories.get(request.category) if request.category is not None else None
        if request.lane is None and (category is None or category.lane is None):
            request = msgspec.structs.replace(request, lane=LANE)
        if schedule.at_most is not None:
            key = f"schedule:{schedule.id}"
            request = msgspec.structs.replace(request, concurrency_key=key, concurrency_limit=schedule.at_most)
        made.append(request)
    return made


def _told(wanted: Wanted) -> str:
    """The end of a spec: what the task learns of its occurrence."""
    times = [rfc3339(at) for at in (wanted.instant, wanted.start, wanted.instant)]
    return f',"scheduled":{msgspec.json.encode(times).decode()}}}'


def rfc3339(at: datetime) -> str:
    return at.astimezone(EPOCH.tzinfo).isoformat().replace("+00:00", "Z")


def _occurrence(run: _Run) -> Occurrence:
    wanted = run.wanted
    return Occurrence(wanted.schedule.id, wanted.instant, wanted.schedule.tenant, wanted.trigger, tuple(run.ids))


def _skip(wanted: Wanted, reason: str) -> Occurrence:
    return Occurrence(wanted.schedule.id, wanted.instant, wanted.schedule.tenant, wanted.trigger, None, reason[:1000])
