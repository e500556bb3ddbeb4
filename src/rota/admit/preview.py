"""A preview of a submission: the steps of admission without the commit.

It makes the same checks with the same errors. Keys and parents are read but not claimed or locked, the rate is read but
not used, ids are invented, and nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rota.admit.admission import Admission
from rota.admit.drafts import hash_of
from rota.admit.judge.arrays import Expanded
from rota.admit.limits import check_waiting, would_pass
from rota.admit.submission import Admitted, Submission, make_rows
from rota.model.errors import Problem
from rota.model.queue import ReadyTask
from rota.model.request.task_request import TaskRequest
from rota.model.resources import Shape
from rota.model.task import State
from rota.model.tenant import Caller
from rota.store.admission import KeyClaim, Parent, find_claims
from rota.store.cancel_and_rerun import final_states, live_states
from rota.store.database import Database
from rota.store.task_rows import Draft, RowMaker

NO_ID = 2**62  # invented ids start here, behind every real id


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks of the request that are equal for the scheduler."""

    first: int  # index in the request
    tasks: int
    state: State  # its first state
    pool: int
    shape: Shape
    ready: ReadyTask | None  # None: it would wait for other tasks or for a time
    name: str = ""
    after: tuple[int, ...] = ()  # live parents of the first task, outside the request
    not_before: datetime | None = None


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
        submission.batch_key = key
        submission.batch_claim = KeyClaim(caller.tenant_id, hash_of(key.encode()), hash_of(body), ids[0], ids)
    parents = await _parents(database, caller, drafts)
    async with database.engine() as connection:
        earlier = await find_claims(connection, caller.tenant_id, [name for _, name in sorted(submission.keys())])
    admitted, edges = make_rows(submission, earlier, parents)
    replayed = [admitted.ids[index] for index in admitted.replayed]
    new = [draft for index, draft in enumerate(drafts) if index not in set(admitted.replayed)]
    refusals: list[Problem] = []
    if new:
        for check in (check_waiting, would_pass):
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
    last: Draft | None = None
    for draft, rows in zip(drafts, admitted.rows, strict=True):
        if last is not None and last.template is draft.template and found[-1].state == rows.state:
            same = found[-1]
            found[-1] = replace(same, tasks=same.tasks + 1)
        else:
            first = draft.id - NO_ID
            template, waits = draft.template, tuple(after.get(draft.id, ()))
            found.append(
                Group(
                    first,
                    1,
                    rows.state,
                    rows.pool,
                    template.shape,
                    rows.ready,
                    template.name,
                    waits,
                    template.not_before,
                )
            )
        last = draft
    return found
