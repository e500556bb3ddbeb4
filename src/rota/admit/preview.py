"""A preview of a submission: the steps of admission without the commit.

It makes the same checks with the same errors. Keys and parents are read but not claimed or locked, the rate is read but
not used, ids are invented, and nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from rota.admit.admission import Admission
from rota.admit.judge.arrays import Expanded
from rota.admit.limits import check_rate, check_size, check_waiting
from rota.admit.submission import Admitted, Submission, make_rows
from rota.model.errors import Problem
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
    ready: ReadyTask | None  # None: it would wait for other tasks or for a time
    after: tuple[int, ...]  # live parents of the first task, outside the request


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
) -> Preview:
    now, drafts = await admission.draft(caller, requests, key=key, single=single, arrays=arrays)
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
        if parent < NO_ID:
            after.setdefault(child, []).append(parent)
    return Preview(len(drafts), refusals, replayed, _groups(new, admitted, after))


async def _parents(database: Database, caller: Caller, drafts: Sequence[Draft]) -> dict[int, Parent]:
    wanted = sorted({parent for draft in drafts for parent in draft.parents})
    if not wanted:
        return {}
    async with database.engine() as connection:
        live = await live_states(connection, wanted, caller.tenant_id)
        final = await final_states(connection, wanted, caller.tenant_id)
    found = {number: Parent(number, caller.tenant_id, None) for number in live}
    return found | {number: Parent(number, caller.tenant_id, state) for number, state in final.items()}


def _groups(drafts: Sequence[Draft], admitted: Admitted, after: dict[int, list[int]]) -> list[Group]:
    found: list[Group] = []
    last: Template | None = None
    for draft, rows in zip(drafts, admitted.rows, strict=True):
        own = draft.template
        if last is own and found[-1].state == rows.state:
            found[-1] = replace(found[-1], tasks=found[-1].tasks + 1)
        else:
            first, waits = draft.id - NO_ID, tuple(after.get(draft.id, ()))
            found.append(Group(first, 1, rows.state, rows.pool, own, rows.ready, waits))
        last = own
    return found
