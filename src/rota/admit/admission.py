"""The pipeline of admission, in reading order: draft, limit, number, commit, answer.

All faults are found before anything is stored. A task is durable before its client or a leader learns of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from rota.admit.drafts import check_idempotency_key, draft_batch, hash_of
from rota.admit.facts_cache import FactsCache
from rota.admit.group_commit import DEADLINE_SECONDS, GroupCommit
from rota.admit.ids import IdBlocks
from rota.admit.judge.arrays import Expanded
from rota.admit.judge.attachments import references_in
from rota.admit.judge.facts import KnownArtifact
from rota.admit.judge.graphs import graph_of_task, graph_row, limit_arrays
from rota.admit.key_limits import check_bounds, check_digests, check_restricted, check_restricted_parents
from rota.admit.limits import check_limits
from rota.admit.submission import Admitted, Submission
from rota.model.errors import Fault, Problem, invalid, unavailable
from rota.model.queue import ReadyTask
from rota.model.request.task_request import TaskRequest
from rota.model.resources import Shape
from rota.model.secret import MOST_A_TASK, name_trouble
from rota.model.tenant import Caller
from rota.store.admission import find_claims
from rota.store.artifacts import find_many
from rota.store.database import CONNECTION_LOST, Database
from rota.store.secrets import names_known
from rota.store.shapes import number_of
from rota.store.task_rows import Draft, RowMaker

Arrived = Callable[[int, list[ReadyTask], dict[int, Shape]], None]
Timed = Callable[[int, int, float], None]  # pool, tenant, seconds

# Codes of faults that facts read too long ago may cause.
MAYBE_STALE = frozenset({"unsatisfiable", "unknown-tier", "unknown-pool", "unknown-lane", "unknown-category"})


class Admission:
    def __init__(
        self,
        database: Database,
        facts: FactsCache,
        *,
        server: Callable[[], int],
        on_arrived: Arrived,
        on_timed: Timed,
        growth_limit: int = 10_000,
    ) -> None:
        self._database = database
        self._facts = facts
        self._server = server
        self._on_arrived = on_arrived
        self._on_timed = on_timed
        self._growth_limit = growth_limit
        self._shape_numbers: dict[bytes, int] = {}
        self._shapes: dict[int, Shape] = {}
        self.ids = IdBlocks(database)
        self.group_commit = GroupCommit(database, self.announce)
        self.admitted = 0

    async def submit(
        self,
        caller: Caller,
        requests: Sequence[TaskRequest],
        *,
        key: str | None,
        body: bytes,
        single: bool,
        graph: str | None = None,
        arrays: Expanded | None = None,
        parent: int | None = None,
    ) -> Admitted:
        """Returns when the tasks are durable.

        `graph`: the name of the graph that they form; empty: the name of its first task. `parent`: the running task
        that submits them with a token. `arrays`: set if the requests were expanded from arrays.
        """
        # 1. Find every fault before anything is stored.
        now, drafts = await self.draft(caller, requests, key=key, single=single, arrays=arrays)
        if not drafts:
            return Admitted([], [])
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        try:
            async with asyncio.timeout_at(deadline):
                await self._check_times(caller, drafts, key)
                # 2. Apply the plan's limits, each in a short transaction of its own.
                try:
                    await check_limits(self._database, caller, len(drafts))
                except Problem:
                    if not await self._seen_before(caller, drafts, key):
                        raise  # a repeated request gets its old answer, whatever the limits are now
                # 3. Number the shapes, then the tasks. Waiting for ids counts against the deadline.
                shapes = await self.number_shapes(drafts)
                new_graph = graph is not None
                alone = [draft for draft in drafts if draft.template.may_submit] if _begin_graphs(caller, graph) else []
                ids = await self.ids.take(new_graph + len(drafts) + len(alone))
        except CONNECTION_LOST as error:
            raise unavailable("the database can't be reached right now; try again") from error
        ids, beginnings = ids[: new_graph + len(drafts)], ids[new_graph + len(drafts) :]
        for draft, number in zip(drafts, ids[new_graph:], strict=True):
            draft.id = number
        if arrays is not None and arrays.limits:
            limit_arrays(drafts, arrays, ids[0])
        # 4. Join the next commit; it answers after the flush.
        maker = RowMaker(caller, now=now, server=self._server())
        done: asyncio.Future[Admitted] = asyncio.get_running_loop().create_future()
        submission = Submission(caller, drafts, shapes, maker, deadline, done)
        submission.artifacts = artifacts_of(drafts)
        submission.parent = parent
        submission.growth_limit = self._growth_limit
        submission.beginnings = tuple(
            graph_of_task(caller, draft, number) for draft, number in zip(alone, beginnings, strict=True)
        )
        if graph is not None:
            submission.graph = graph_row(caller, graph or drafts[0].template.name, ids[0], requests, drafts, arrays)
        if key is not None and not single:
            submission.claim_batch(key, body, ids)
        return await self.group_commit.join(submission)

    async def draft(
        self,
        caller: Caller,
        requests: Sequence[TaskRequest],
        *,
        key: str | None,
        single: bool,
        arrays: Expanded | None = None,
        uploads: Sequence[KnownArtifact] = (),
    ) -> tuple[datetime, list[Draft]]:
        """The drafts and the time at which they were judged. Raises a Problem with every fault.

        `uploads`: artifacts that would be there, of a preview.
        """
        if key is not None:
            check_idempotency_key(key, "Idempotency-Key")
        pointers = arrays.pointers if arrays is not None else [] if single else None
        if caller.task is not None:
            check_digests(requests)
        unknown = await self._unknown_secrets(caller, requests, pointers) if caller.task is None else []
        known = await self._find_artifacts(caller, references_in(requests))
        for digits, found in known.items() if uploads else ():
            coming = [one for one in uploads if one.digest.hex().startswith(digits)]
            known[digits] = (*found, *(one for one in coming if one.digest not in {each.digest for each in found}))
        may_be_stale = True
        while True:
            facts = self._facts.of(caller)
            if known:
                facts = dataclasses.replace(facts, artifacts=known)
            try:
                drafts = draft_batch(requests, facts, key=key, single=single, arrays=arrays)
            except Problem as refusal:
                # A node that joined or a name that was defined a moment ago may be missing from the cache.
                may_be_stale &= not MAYBE_STALE.isdisjoint(fault.code for fault in refusal.faults)
                if may_be_stale and await self._facts.reread():
                    may_be_stale = False
                    continue
                if unknown and refusal.faults:
                    raise invalid([*refusal.faults, *unknown][:100]) from None
                raise
            if unknown:
                raise invalid(unknown[:100])
            if caller.task is not None:
                await check_bounds(self._database, caller, caller.task, drafts)
            if caller.restrictions.of_tasks:
                check_restricted(caller, drafts, {pool.id: pool.name for pool in facts.pools.values()})
                await check_restricted_parents(self._database, caller, drafts)
            return facts.now, drafts

    async def _find_artifacts(self, caller: Caller, digits: list[str]) -> dict[str, tuple[KnownArtifact, ...]]:
        """One query per request; none if no artifact is named."""
        if not digits:
            return {}
        async with self._database.engine() as connection:
            found = await find_many(connection, caller.tenant_id, digits)
        return {prefix: tuple(KnownArtifact(row.sha256, row.name) for row in rows) for prefix, rows in found.items()}

    async def _unknown_secrets(
        self, caller: Caller, requests: Sequence[TaskRequest], pointers: Sequence[str] | None
    ) -> list[Fault]:
        """A fault for each named secret that the tenant does not have. One query; none if no secret is named.

        `pointers`: the JSON pointer of each request; None: they are a list of tasks; empty: the request is the body.
        """
        named: dict[str, str] = {}  # name → pointer of its first use
        for index, request in enumerate(requests):
            few = request.secrets if len(request.secrets) <= MOST_A_TASK else ()
            for position, name in enumerate(few):
                pointer = f"/tasks/{index}" if pointers is None else pointers[index] if pointers else ""
                if name_trouble(name) is None and name not in request.env:
                    named.setdefault(name, f"{pointer}/secrets/{position}")
        if not named:
            return []
        async with self._database.engine() as connection:
            known = await names_known(connection, caller.tenant_id, list(named))
        return [
            Fault(pointer, "unknown-secret", f"there is no secret {name}; rota secret set {name} creates it")
            for name, pointer in named.items()
            if name not in known
        ]

    async def _check_times(self, caller: Caller, drafts: Sequence[Draft], key: str | None) -> None:
        """Refuses start times that have passed, unless the request is repeated: then its answer is the old one."""
        late = [draft for draft in drafts if draft.passed is not None]
        if late and not await self._seen_before(caller, late, key):
            raise invalid([draft.passed for draft in late[:100] if draft.passed is not None])

    async def _seen_before(self, caller: Caller, drafts: Sequence[Draft], key: str | None) -> bool:
        """Whether every task of the request was submitted before with the same keys."""
        hashes = {draft.key_hash for draft in drafts} if key is None else {hash_of(key.encode())}
        used = [key_hash for key_hash in hashes if key_hash is not None]
        if len(used) < len(hashes):
            return False
        async with self._database.engine() as connection:
            return len(await find_claims(connection, caller.tenant_id, used)) == len(used)

    async def number_shapes(self, drafts: Sequence[Draft]) -> list[int]:
        """The shape number of each draft. Neighbours mostly share a template, and so a shape."""
        numbers: list[int] = []
        template, number = None, 0
        for draft in drafts:
            if draft.template is not template:
                template = draft.template
                number = await self._shape_number(template.shape)
            numbers.append(number)
        return numbers

    async def _shape_number(self, shape: Shape) -> int:
        text = msgspec.json.encode(shape)
        number = self._shape_numbers.get(text)
        if number is None:
            async with self._database.engine() as connection:
                number = await number_of(connection, shape)
            self._shape_numbers[text] = number
            self._shapes[number] = shape
        return number

    def announce(self, submission: Submission, admitted: Admitted) -> None:
        """Hands ready tasks to the leaders of their pools, and announces the next timer of each pool."""
        self.admitted += len(admitted.rows)
        arrivals: dict[int, list[ReadyTask]] = {}
        soonest: dict[int, float] = {}
        now = self._facts.now()
        for rows in admitted.rows:
            if rows.ready is not None:
                arrivals.setdefault(rows.pool, []).append(rows.ready)
            if rows.wake_at is not None:
                seconds = (rows.wake_at - now).total_seconds()
                soonest[rows.pool] = min(soonest.get(rows.pool, seconds), seconds)
        for pool, tasks in arrivals.items():
            shapes = {task.shape: self._shapes[task.shape] for task in tasks}
            self._on_arrived(pool, tasks, shapes)
        for pool, seconds in soonest.items():
            self._on_timed(pool, submission.caller.tenant_id, seconds)


def _begin_graphs(caller: Caller, graph: str | None) -> bool:
    """Whether tasks that may submit begin graphs of their own: they are neither in a new one, nor join one."""
    return graph is None and caller.task is None


def artifacts_of(drafts: Sequence[Draft]) -> frozenset[bytes]:
    """The digests of all artifacts that the drafts name."""
    return frozenset({digest for draft in drafts for digest in draft.template.artifacts})
