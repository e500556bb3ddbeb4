"""The API of a server node: submissions that share a commit, cancels, redrives. Mirrors `admit/group_commit.py`.

Making rows of a request (`make_rows`), cancels and redrives are production code. A lost reply to a commit is settled by
the commit's own row, as in production. Clients are answered through a callback; a dead server never answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ParamSpec, cast

from rota.admit.submission import Admitted, Claims, Edge, Submission, make_rows
from rota.model.errors import Problem
from rota.model.queue import ReadyTask
from rota.model.request.edit import Edit
from rota.model.task import State, Upstream
from rota.simulate.world.database.connection import Lost
from rota.simulate.world.database.rows import BLOCKED, DELAYED, READY, Row, Task
from rota.simulate.world.database.rows import Edge as EdgeRow
from rota.simulate.world.database.tables import Tables
from rota.simulate.world.kernel import Signal
from rota.store import cancel_and_rerun, concurrency_keys, edits, pausing
from rota.store.admission import KeyClaim, Parent
from rota.store.queue import ready_task
from rota.store.task_rows import Draft

if TYPE_CHECKING:
    from rota.simulate.world.server import Server

P = ParamSpec("P")
Answer = Callable[[str, Any], None]  # "ok" and the result, "refused" and the reason, or "unknown"

DEADLINE_SECONDS = 5.0


class Request:
    """One request of a client: tasks, each with its parents in the same request and its older parents."""

    def __init__(self, tenant: int, tasks: list[dict[str, Any]], keys: list[str | None]) -> None:
        self.tenant = tenant
        self.tasks = tasks
        self.keys = keys
        self.parents: list[list[int]] = [[] for _ in tasks]
        self.siblings: list[list[int]] = [[] for _ in tasks]


class _Maker:
    """Replaces `RowMaker`: a row is the draft, whether it is blocked, and its parents."""

    @staticmethod
    def rows(draft: Draft, shape: int, *, blocked: bool = False, after: list[int] | None = None) -> Any:
        return (draft, blocked, after or [])


def _unless_lost(request: Callable[P, Awaitable[None]]) -> Callable[P, Coroutine[Any, Any, None]]:
    """A request that ends without an answer if the database's reply is lost; it may have been carried out."""

    @wraps(request)
    async def attempted(*arguments: P.args, **options: P.kwargs) -> None:
        with suppress(Lost):
            await request(*arguments, **options)

    return attempted


class Api:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._waiting: deque[tuple[Request, Submission, Answer]] = deque()
        self._wake = Signal()

    def start(self) -> None:
        self._server.spawn(self._writer())

    # ---- submissions ------------------------------------------------------------------------------------------------

    def submit(self, request: Request, answer: Answer) -> None:
        self._waiting.append((request, self._submission(request), answer))
        self._wake.set()

    def _submission(self, request: Request) -> Submission:
        drafts = []
        for index, fields in enumerate(request.tasks):
            key = request.keys[index]
            template = SimpleNamespace(pool=fields["pool"], upstream=Upstream(fields["upstream"]), fields=fields)
            drafts.append(
                Draft(
                    cast(Any, template),
                    "",
                    request.parents[index],
                    request.siblings[index],
                    key,
                    None if key is None else key.encode(),
                    repr(sorted(fields.items())).encode(),
                    f"/tasks/{index}",
                    next(self._server.world.task_ids),
                )
            )
        caller = cast(Any, SimpleNamespace(tenant_id=request.tenant))
        return Submission(
            caller, drafts, [fields["shape"] for fields in request.tasks], cast(Any, _Maker), 0.0, cast(Any, None)
        )

    async def _writer(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, keys = [], set[tuple[int, bytes]]()
                while self._waiting and not self._waiting[0][1].keys() & keys:
                    batch.append(self._waiting.popleft())
                    keys |= batch[-1][1].keys()
                await self._commit_batch(batch)

    async def _commit_batch(self, batch: list[tuple[Request, Submission, Answer]]) -> None:
        server = self._server
        deadline = server.clock() + DEADLINE_SECONDS
        pause = 0.02
        while server.clock() < deadline:
            commit_id = next(server.world.commit_ids)
            admitted: list[tuple[Submission, Answer, Admitted]] = []
            try:
                connection = server.connect()
                async with connection.transaction():
                    admitted = self._write(server.store.tables, commit_id, batch)
            except Lost:
                committed = await self._was_committed(commit_id, deadline)
                if committed is None:
                    break
                if not committed:
                    await server.sleep(pause)
                    pause = min(2 * pause, 0.5)
                    continue
            for submission, answer, outcome in admitted:
                self._answer(answer, "ok", outcome.ids)
                self._pass_on(submission, outcome)
            return
        for _, _, answer in batch:
            self._answer(answer, "unknown", None)

    async def _was_committed(self, commit_id: int, deadline: float) -> bool | None:
        """Inserts the commit's own row again: that tells for certain, and leaves a tombstone if it never happened."""
        server = self._server
        while server.clock() < deadline:
            try:
                async with server.connect().transaction():
                    happened = commit_id in server.store.tables.admission_commits
                    server.store.tables.admission_commits.setdefault(commit_id, False)
                return happened and server.store.tables.admission_commits[commit_id]
            except Lost:
                await server.sleep(0.05)
        return None

    def _write(
        self, tables: Tables, commit_id: int, batch: list[tuple[Request, Submission, Answer]]
    ) -> list[tuple[Submission, Answer, Admitted]]:
        tables.admission_commits[commit_id] = True
        admitted = []
        for _, submission, answer in batch:
            earlier = _claim(tables, submission)
            try:
                outcome, edges = make_rows(submission, earlier, _lock_parents(tables, submission))
            except Problem as problem:
                for key in sorted(submission.keys()):
                    if key in tables.keys and tables.keys[key][1] in [draft.id for draft in submission.drafts]:
                        del tables.keys[key]
                self._answer(answer, "refused", problem.detail)
                continue
            self._insert(tables, submission, outcome, edges)
            admitted.append((submission, answer, outcome))
        return admitted

    def _insert(self, tables: Tables, submission: Submission, outcome: Admitted, edges: list[Edge]) -> None:
        now = tables.now_us()
        for draft, blocked, after in cast(Any, outcome.rows):
            fields = draft.template.fields
            task = Task(
                id=draft.id, tenant=submission.caller.tenant_id, key=draft.idempotency_key, after=tuple(after), **fields
            )
            later = task.not_before_us is not None and task.not_before_us > now
            state = BLOCKED if blocked else DELAYED if later else READY
            start_by_us = (task.not_before_us or now if later else now) + task.tolerance_ms * 1000
            tables.enqueue(task, state, task.not_before_us if later else None, start_by_us)
        for parent, child, pool, upstream in edges:
            tables.edges[parent, child] = EdgeRow(parent, child, pool, int(upstream))
            tables.children.setdefault(parent, []).append(child)
            tables.parents.setdefault(child, []).append(parent)

    def _pass_on(self, submission: Submission, outcome: Admitted) -> None:
        """Sends hints of the new tasks to the leaders."""
        tables = self._server.store.tables
        ready: dict[int, list[ReadyTask]] = {}
        for draft, _, _ in cast(Any, outcome.rows):
            row = tables.queue.get(draft.id)
            if row is None:
                continue
            if row.state == READY and row.version == 0:
                ready.setdefault(row.pool, []).append(ready_task(cast(Any, Row(tables.ready_row(row), due=False))))
            if row.state in (DELAYED, READY) and row.wake_us is not None:
                self._server.hint_timed(row.pool, row.tenant, (row.wake_us - tables.now_us()) / 1e6)
        for pool, tasks in ready.items():
            self._server.hint_arrived(pool, tasks)

    def _answer(self, answer: Answer, status: str, result: Any) -> None:
        if self._server.alive:
            answer(status, result)

    # ---- edits ------------------------------------------------------------------------------------------------------

    @_unless_lost
    async def cancel(self, tasks: list[int], tenant: int, answer: Answer) -> None:
        server = self._server
        cancelled = await cancel_and_rerun.cancel_tasks(server.connect(), tasks, tenant, "cancelled by its owner")
        self._answer(answer, "ok", [t for t, _ in cancelled.ended] + [t for t, _, _ in cancelled.stopping])
        for pool in server.world.pools:
            running = [(task, attempt) for task, own, attempt in cancelled.stopping if own == pool]
            waiting = [task for task, own in cancelled.ended if own == pool]
            if running or waiting:
                server.hint_cancelled(pool, running, waiting)
        server.hint_poll(cancelled.dependent_pools)

    @_unless_lost
    async def pause(self, task: int, tenant: int) -> None:
        paused = await pausing.pause_tasks(self._server.connect(), [task], tenant, user="owner")
        for _, pool in paused.held_back:
            self._server.hint_cancelled(pool, [], [task])
        for _, pool, attempt in paused.stopping:
            self._server.hint_paused(pool, [(task, attempt)])

    @_unless_lost
    async def hold(self, task: int, tenant: int, answer: Answer) -> None:
        held = await pausing.hold_tasks(self._server.connect(), [task], tenant, "held by its owner", user="owner")
        self._answer(answer, "ok", [number for number, _ in held])
        for number, pool in held:
            self._server.hint_cancelled(pool, [], [number])

    @_unless_lost
    async def resume(self, task: int, tenant: int, answer: Answer) -> None:
        resumed = await pausing.resume_tasks(self._server.connect(), [task], tenant, user="owner")
        self._answer(answer, "ok", task)
        for one in resumed:
            self._announce(one, tenant)

    def _announce(self, one: pausing.Resumed, tenant: int) -> None:
        server = self._server
        if one.state == BLOCKED:
            server.hint_poll([one.pool])
        elif one.state == READY:
            server.hint_arrived(one.pool, [one.task])
        elif one.wakes_in_seconds is not None:
            server.hint_timed(one.pool, tenant, max(0.0, one.wakes_in_seconds))

    @_unless_lost
    async def edit(self, task: int, tenant: int, change: Edit, version: int) -> None:
        server = self._server
        try:
            edited = await edits.edit_task(server.connect(), task, tenant, change, version=version, user="owner")
        except (edits.NotWaiting, edits.VersionChanged):
            return
        if edited is None:
            return
        now = edited.now
        if now.state == READY and now.pool == edited.pool_before:
            server.hint_reordered(now.pool, tenant, task, now.task.order)
        else:
            server.hint_cancelled(edited.pool_before, [], [task])
        if now.state != State.PAUSED:
            self._announce(now, tenant)

    @_unless_lost
    async def cool_key(self, tenant: int, key: str, seconds: float) -> None:
        await concurrency_keys.cool_key(self._server.connect(), tenant, key, int(seconds * 1000))
        self._server.hint_poll(self._server.world.pools)

    @_unless_lost
    async def redrive(self, task: int, tenant: int) -> None:
        server = self._server
        new_id = next(server.world.task_ids)
        rerun = await cancel_and_rerun.rerun_task(server.connect(), task, tenant, new_id=new_id, user="owner", server=1)
        if rerun.ready is not None:
            server.hint_arrived(rerun.pool, [rerun.ready])
            if rerun.urgent_in_seconds is not None:
                server.hint_timed(rerun.pool, tenant, max(0.0, rerun.urgent_in_seconds))


def _claim(tables: Tables, submission: Submission) -> Claims:
    """Claims the idempotency keys; returns those that an earlier task, or another task of the request, has."""
    earlier: Claims = {}
    for claim in submission.claims():
        key = (claim.tenant, claim.key_hash)
        body, task = tables.keys.setdefault(key, (claim.body_hash, claim.task))
        if task != claim.task:
            earlier[key] = KeyClaim(claim.tenant, claim.key_hash, body, task)
    return earlier


def _lock_parents(tables: Tables, submission: Submission) -> dict[int, Parent]:
    found = {}
    for draft in submission.drafts:
        for parent in draft.parents:
            task = tables.tasks.get(parent)
            if task is not None:
                found[parent] = Parent(parent, task.tenant, tables.ended.get(parent))
    return found
