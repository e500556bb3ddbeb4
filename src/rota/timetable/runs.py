"""Makes runs: turns due instants of schedules into tasks, in the caller's transaction.

The ticker, manual runs and backfills call it with the schedules' rows locked. An instant becomes tasks only if its
occurrence row is new; tasks, graph, queue rows and edges are written in the same transaction. After the commit the
caller notifies leaders (`announce`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from random import random

import msgspec

from rota.admit.admission import Admission
from rota.admit.drafts import draft_batch
from rota.admit.facts_cache import FactsCache
from rota.admit.judge.facts import Facts
from rota.admit.judge.graphs import graph_of_task, graph_row, limit_arrays
from rota.admit.limits import take_fitting
from rota.admit.submission import Admitted, Submission, make_rows
from rota.model.clock import EPOCH
from rota.model.errors import Problem
from rota.model.schedule.schedule import Overlap, Schedule, ScheduledFor, Trigger
from rota.model.task import Upstream
from rota.model.tenant import Caller
from rota.store import admission as rows
from rota.store import graphs, schedules
from rota.store.admission import Parent
from rota.store.artifacts import lock_artifacts_of_many
from rota.store.cancel_and_rerun import Cancelled, cancel_tasks
from rota.store.database import AnyConnection, Database
from rota.store.graphs import GraphRow
from rota.store.schedules import Occurrence
from rota.store.task_rows import Draft, RowMaker
from rota.timetable.due import jitter_of
from rota.timetable.run_tasks import Work, known_artifacts, work_of

MOST_WAITS = 250_000  # edges from a run to the next one: its live tasks times the roots of the next
SLICE = 100  # runs drafted or written before the event loop gets a turn


@dataclass(frozen=True, slots=True)
class Wanted:
    """A due instant, and the start of its interval."""

    schedule: Schedule
    instant: datetime
    start: datetime
    trigger: Trigger = Trigger.TIME


@dataclass(slots=True)
class Made:
    """The rows that a batch wrote, announced to leaders after the commit."""

    occurrences: list[Occurrence] = field(default_factory=list)  # runs and skips, in the order of the instants
    submissions: list[tuple[Submission, Admitted]] = field(default_factory=list)
    cancelled: list[Cancelled] = field(default_factory=list)


@dataclass(slots=True)
class _Run:
    wanted: Wanted
    caller: Caller
    work: Work
    drafts: list[Draft]
    after: list[int] = field(default_factory=list)  # live tasks of the run before, which it must not overlap
    ids: list[int] = field(default_factory=list)
    graph: int | None = None


class Runs:
    def __init__(self, database: Database, admission: Admission, facts: FactsCache, *, server: int) -> None:
        self._database = database
        self._admission = admission
        self._facts = facts
        self._server = server

    async def make(self, connection: AnyConnection, wanted: Sequence[Wanted]) -> Made:
        """Writes the runs in order, in the caller's transaction."""
        made = Made()
        if not wanted:
            return made
        # 1. Read the owners, the live tasks of the last runs, and the artifacts.
        owners = await schedules.read_owners(connection, (one.schedule.tenant for one in wanted))
        current = await self._current(connection, wanted)
        artifacts = await self._artifacts(connection, wanted)
        # 2. Draft each run as a submission, or skip it with the reason.
        drafted = []
        judges: dict[tuple[int, str], tuple[Caller, Facts]] = {}
        for number, one in enumerate(wanted):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)  # let other coroutines run
            key = (one.schedule.tenant, one.schedule.user)
            if key not in judges:
                caller = schedules.owned_by(owners[one.schedule.tenant], one.schedule.user)
                judges[key] = (caller, self._facts.of(caller))
            draft = _draft(one, *judges[key], artifacts, made)
            if draft is not None:
                drafted.append(draft)
        allowed = await self._within_limits(connection, drafted, made)
        # 3. Take ids and apply the overlap policy.
        runs, replaced = await self._identify(allowed, current, made)
        # 4. Insert occurrences: only a new instant, or one skipped before, becomes tasks.
        occurrences = [_occurrence(run) for run in runs]
        ours = await schedules.insert_runs(connection, occurrences) if runs else set()
        runs = [run for run in runs if (run.wanted.schedule.id, run.wanted.instant) in ours]
        made.occurrences += [one for one in occurrences if (one.schedule, one.instant) in ours]
        for tenant, tasks in replaced.items():
            made.cancelled.append(await cancel_tasks(connection, tasks, tenant, "replaced by its schedule's next run"))
        # 5. Write the rows.
        await self._write(connection, runs, made)
        await schedules.insert_skips(connection, [one for one in made.occurrences if one.tasks is None])
        return made

    async def _current(self, connection: AnyConnection, wanted: Sequence[Wanted]) -> dict[int, list[int]]:
        """Schedule → live tasks of its last run, if the overlap policy needs them."""
        matters = {one.schedule.id: one.schedule for one in wanted if one.schedule.overlap != Overlap.ALLOW}
        tasks = [task for own in matters.values() if own.last_graph is None for task in own.last_tasks]
        whole = [own.last_graph for own in matters.values() if own.last_graph is not None]
        live = await schedules.live_among(connection, tasks) if tasks else set()
        members = await schedules.live_in_graphs(connection, whole) if whole else {}
        return {
            number: [task for task in own.last_tasks if task in live]
            if own.last_graph is None
            else members.get(own.last_graph, [])
            for number, own in matters.items()
        }

    async def _artifacts(self, connection: AnyConnection, wanted: Sequence[Wanted]) -> dict[tuple[int, bytes], str]:
        """Locks the artifacts of the schedules until the tasks that name them are stored."""
        named = {(one.schedule.tenant, digest) for one in wanted for digest in one.schedule.artifacts}
        return await lock_artifacts_of_many(connection, sorted(named)) if named else {}

    async def _within_limits(self, connection: AnyConnection, runs: list[_Run], made: Made) -> list[_Run]:
        """Applies the limits of the tenants' plans: schedules take turns, and runs that do not fit are skipped."""
        tenants: dict[int, list[_Run]] = {}
        for run in runs:
            if run.caller.plan.tasks_per_hour is not None or run.caller.plan.waiting_tasks is not None:
                tenants.setdefault(run.caller.tenant_id, []).append(run)
        due = await schedules.count_due(connection, tenants) if tenants else {}
        refused: set[tuple[int, datetime]] = set()
        for tenant, own in tenants.items():
            ordered = in_turns([run.wanted for run in own])
            sizes = {_instant(run.wanted): len(run.drafts) for run in own}
            number = len({run.wanted.schedule.id for run in own})
            fits, limit = await take_fitting(
                self._database,
                own[0].caller,
                [sizes[_instant(one)] for one in ordered],
                partial(share_of, own=number, due=due.get(tenant, 0), chance=random()),
            )
            skipped = [one for one, fit in zip(ordered, fits, strict=True) if not fit]
            refused |= {_instant(one) for one in skipped}
            made.occurrences += [_skip(one, f"refused: {limit}") for one in skipped]
        return [run for run in runs if _instant(run.wanted) not in refused]

    async def _identify(
        self, runs: list[_Run], current: dict[int, list[int]], made: Made
    ) -> tuple[list[_Run], dict[int, list[int]]]:
        kept: list[_Run] = []
        replaced: dict[int, list[int]] = {}
        amount = sum(len(run.drafts) + (run.work.graph is not None) for run in runs)
        ids = await self._admission.ids.take(amount) if runs else []
        for run in runs:
            schedule, backfill = run.wanted.schedule, run.wanted.trigger is Trigger.BACKFILL
            before = current.get(schedule.id, [])
            if before and schedule.overlap is Overlap.SKIP and not backfill:
                reason = f"overlap: task {before[0]} of the last run has not ended"
                made.occurrences.append(_skip(run.wanted, reason))
                continue
            if len(before) * sum(not draft.siblings for draft in run.drafts) > MOST_WAITS:
                reason = f"overlap: {len(before)} tasks of the last run have not ended, too many to wait for"
                made.occurrences.append(_skip(run.wanted, reason))
                continue
            if before and schedule.overlap is Overlap.REPLACE and not backfill:
                replaced.setdefault(schedule.tenant, []).extend(before)
            if run.work.graph is not None:
                run.graph, ids = ids[0], ids[1:]
            run.ids, ids = ids[: len(run.drafts)], ids[len(run.drafts) :]
            for draft, number in zip(run.drafts, run.ids, strict=True):
                draft.id = number
            if run.work.arrays is not None and run.work.arrays.limits:
                limit_arrays(run.drafts, run.work.arrays, run.graph or 0)
            if before:
                run.after = before
            if schedule.overlap is not Overlap.ALLOW:
                current[schedule.id] = run.ids
            kept.append(run)
        return kept, replaced

    async def _write(self, connection: AnyConnection, runs: list[_Run], made: Made) -> None:
        if not runs:
            return
        before = [task for run in runs for task in run.after]
        parents = await rows.lock_parents(connection, before) if before else {}
        now, nobody_waits = self._facts.now(), asyncio.get_running_loop().create_future()
        new_rows, edges, new_graphs = [], [], []
        submitted: dict[int, list[int]] = {}
        for number, run in enumerate(runs):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            after = [task for task in run.after if task in parents and parents[task].state is None]
            for draft in run.drafts:
                if after and not draft.siblings:
                    draft.parents = after
                    draft.template = replace(draft.template, upstream=Upstream.RUN)
            shapes = await self._admission.number_shapes(run.drafts)
            scheduled = ScheduledFor(run.wanted.schedule.id, run.wanted.instant, run.wanted.start, run.wanted.instant)
            maker = RowMaker(run.caller, now=now, server=self._server, scheduled=scheduled)
            submission = Submission(run.caller, run.drafts, shapes, maker, 0.0, nobody_waits)
            admitted, own_edges = make_rows(submission, {}, parents)
            parents |= {number: Parent(number, run.caller.tenant_id, None) for number in run.ids}
            made.submissions.append((submission, admitted))
            if run.graph is not None:
                new_graphs.append(_graph(run, run.graph))
            edges += own_edges
            new_rows += admitted.rows
            submitted.setdefault(run.caller.tenant_id, []).extend(row.draft.id for row in admitted.rows)
        await rows.copy_rows(connection, new_rows)
        await rows.record_submitted(connection, submitted)
        if edges:
            await rows.copy_edges(connection, edges)
        if new_graphs:
            await graphs.insert_graphs(connection, new_graphs)

    def announce(self, made: Made) -> None:
        """Notifies leaders after the commit. A lost call does no harm, because leaders poll."""
        together: dict[int, tuple[Submission, Admitted]] = {}  # one notification for each tenant, not for each run
        for submission, admitted in made.submissions:
            _, all_of_them = together.setdefault(submission.caller.tenant_id, (submission, Admitted([], [])))
            all_of_them.rows += admitted.rows
        for submission, admitted in together.values():
            self._admission.announce(submission, admitted)


def in_turns(wanted: Sequence[Wanted]) -> list[Wanted]:
    """The schedule whose last run was longest ago first; the second instants of all schedules after the first ones."""
    rounds: dict[int, int] = {}
    turns = []
    for one in wanted:
        schedule = one.schedule
        turn = rounds[schedule.id] = rounds.get(schedule.id, 0) + 1
        turns.append((turn, schedule.last_tasks[:1], schedule.id))
    return [wanted[index] for index in sorted(range(len(wanted)), key=lambda index: turns[index])]


def share_of(allowed: int, own: int, due: int, chance: float) -> int:
    """The tasks that a batch of `own` schedules may take if `due` schedules of the tenant are due in all.

    A later batch must get its part too. The remainder goes to a batch by chance, so that none is always last.
    """
    if own >= due:
        return allowed
    whole, part = divmod(allowed * own, due)
    return whole + (chance * due < part)


def _instant(wanted: Wanted) -> tuple[int, datetime]:
    return wanted.schedule.id, wanted.instant


def _draft(
    wanted: Wanted, caller: Caller, facts: Facts, artifacts: dict[tuple[int, bytes], str], made: Made
) -> _Run | None:
    schedule = wanted.schedule
    try:
        work = work_of(schedule, facts)
        if schedule.artifacts:
            facts = replace(facts, artifacts=known_artifacts(schedule, work, artifacts))
        drafts = draft_batch(work.tasks, facts, key=None, single=False, arrays=work.arrays)
    except (Problem, msgspec.MsgspecError) as refusal:  # a later version may refuse what an earlier one accepted
        made.occurrences.append(_skip(wanted, f"refused: {refusal}"))
        return None
    if wanted.trigger is Trigger.TIME and schedule.jitter_ms:  # a manual run starts at once
        later = wanted.instant + jitter_of(schedule.id, wanted.instant, schedule.jitter_ms)
        for draft in drafts:
            if later > facts.now and not draft.siblings and draft.template.not_before is None:
                draft.template = replace(draft.template, not_before=later)
    tail = _spec_tail(wanted.instant, wanted.start)
    for draft in drafts:
        draft.spec = draft.spec[:-1] + tail
    return _Run(wanted, caller, work, drafts)


def _graph(run: _Run, number: int) -> GraphRow:
    name = run.work.graph or run.drafts[0].template.name
    if run.work.from_task:
        row = graph_of_task(run.caller, run.drafts[0], number)
    else:
        row = graph_row(run.caller, name, number, run.work.tasks, run.drafts, run.work.arrays)
    return replace(row, schedule=run.wanted.schedule.id, scheduled_for=run.wanted.instant)


@lru_cache(maxsize=1024)  # most runs of a batch share their instant
def _spec_tail(instant: datetime, start: datetime) -> str:
    """The end of a spec: the times of the occurrence."""
    times = [rfc3339(at) for at in (instant, start, instant)]
    return f',"scheduled":{msgspec.json.encode(times).decode()}}}'


def rfc3339(at: datetime) -> str:
    return at.astimezone(EPOCH.tzinfo).isoformat().replace("+00:00", "Z")


def _occurrence(run: _Run) -> Occurrence:
    wanted = run.wanted
    return Occurrence(
        wanted.schedule.id, wanted.instant, wanted.schedule.tenant, wanted.trigger, tuple(run.ids), graph=run.graph
    )


def _skip(wanted: Wanted, reason: str) -> Occurrence:
    return Occurrence(wanted.schedule.id, wanted.instant, wanted.schedule.tenant, wanted.trigger, None, reason[:1000])
