"""A preview of a submission: the steps of admission without the commit.

It makes the same checks with the same errors. Keys and parents are read but not claimed or locked, the rate is read but
not used, ids are invented, and nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from rota.admit.admission import Admission
from rota.admit.judge.arrays import Expanded
from rota.admit.judge.facts import KnownArtifact
from rota.admit.limits import check_rate, check_size, check_waiting
from rota.admit.submission import Admitted, Submission, make_rows
from rota.decide.forecasts.forecast import Planned
from rota.model.clock import to_us
from rota.model.errors import Problem, invalid
from rota.model.queue import ReadyTask
from rota.model.request.task_request import TaskRequest
from rota.model.task import State
from rota.model.tenant import Caller
from rota.store.admission import Parent, find_claims
from rota.store.cancel_and_rerun import final_states, live_states
from rota.store.database import Database
from rota.store.task_rows import Draft, RowMaker, Template

NO_ID = 2**62  # invented ids start here, behind every real id


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks of the request that are equal for the scheduler."""

    first: int  # index in the request
    tasks: int
    state: State  # its first state
    pool: int
    template: Template
    after: tuple[int, ...]  # live parents of the first task, outside the request
    planned: tuple[Planned, ...]  # its tasks, as a forecast takes them


@dataclass(frozen=True, slots=True)
class Preview:
    tasks: int
    refusals: list[Problem]  # limits that would refuse it now but may not later
    replays: list[int]  # tasks that its idempotency keys were used for
    groups: list[Group]


async def preview(
    admission: Admission,
    database: Database,
    caller: Caller,
    requests: Sequence[TaskRequest],
    *,
    key: str | None,
    body: bytes,
    single: bool,
    arrays: Expanded | None = None,
    uploads: Sequence[KnownArtifact] = (),
) -> Preview:
    now, drafts = await admission.draft(caller, requests, key=key, single=single, arrays=arrays, uploads=uploads)
    ids = [NO_ID + index for index in range(len(drafts))]
    for draft, number in zip(drafts, ids, strict=True):
        draft.id = number
    done: asyncio.Future[Admitted] = asyncio.get_running_loop().create_future()
    submission = Submission(caller, drafts, [0] * len(drafts), RowMaker(caller, now=now, server=0), 0.0, done)
    if key is not None and not single:
        submission.claim_batch(key, body, ids)
    parents = await _parents(database, caller, drafts)
    async with database.engine() as connection:
        earlier = await find_claims(connection, caller.tenant_id, [name for _, name in sorted(submission.keys())])
    admitted, edges = make_rows(submission, earlier, parents)
    replayed = [admitted.ids[index] for index in admitted.replayed]
    new = [draft for index, draft in enumerate(drafts) if index not in set(admitted.replayed)]
    late = [draft.passed for draft in new if draft.passed is not None]
    if late:
        raise invalid(late[:100])
    refusals: list[Problem] = []
    if new:
        check_size(caller.plan, len(drafts))
        for check in (check_waiting, partial(check_rate, take=False)):
            try:
                await check(database, caller, len(drafts))
            except Problem as refusal:
                if refusal.status != 429:
                    raise
                refusals.append(refusal)
    after: dict[int, list[int]] = {}
    for parent, child, _, _ in edges:
        after.setdefault(child, []).append(parent)
    return Preview(len(drafts), refusals, replayed, _groups(caller, now, new, admitted, after))


async def _parents(database: Database, caller: Caller, drafts: Sequence[Draft]) -> dict[int, Parent]:
    wanted = sorted({parent for draft in drafts for parent in draft.parents})
    if not wanted:
        return {}
    async with database.engine() as connection:
        live = await live_states(connection, wanted, caller.tenant_id)
        final = await final_states(connection, wanted, caller.tenant_id)
    found = {number: Parent(number, caller.tenant_id, None) for number in live}
    return found | {number: Parent(number, caller.tenant_id, state) for number, state in final.items()}


def _groups(
    caller: Caller, now: datetime, drafts: Sequence[Draft], admitted: Admitted, after: dict[int, list[int]]
) -> list[Group]:
    found: list[Group] = []
    planned: list[list[Planned]] = []
    last: Template | None = None
    for draft, rows in zip(drafts, admitted.rows, strict=True):
        own, parents = draft.template, tuple(after.get(draft.id, ()))
        if last is own and found[-1].state == rows.state:
            found[-1] = replace(found[-1], tasks=found[-1].tasks + 1)
        else:
            outside = tuple(parent for parent in parents if parent < NO_ID)
            found.append(Group(draft.id - NO_ID, 1, rows.state, rows.pool, own, outside, ()))
            planned.append([])
        planned[-1].append(_planned(caller, now, draft, parents))
        last = own
    return [replace(group, planned=tuple(tasks)) for group, tasks in zip(found, planned, strict=True)]


def _planned(caller: Caller, now: datetime, draft: Draft, parents: tuple[int, ...]) -> Planned:
    own = draft.template
    start_by = (own.not_before or now) + timedelta(milliseconds=own.tolerance_ms)
    task = ReadyTask(
        id=draft.id,
        version=0,
        tenant=caller.tenant_id,
        lane=own.lane,
        urgency=-own.priority,
        start_by_us=to_us(start_by),
        cap_ms=own.cap_ms,
        shape=0,
        work=own.work,
        concurrency_key=own.concurrency_key,
        concurrency_limit=own.concurrency_limit or 1,
        preemptible=own.preemptible,
        concurrency_global=own.concurrency_global,
        leeway_ms=own.leeway_ms,
    )
    not_before_us = 0 if own.not_before is None else to_us(own.not_before)
    return Planned(
        task=task,
        shape=own.shape,
        after=parents,
        not_before_us=not_before_us,
        longest_cap_us=1_000_000 * caller.plan.longest_cap_seconds,
    )
