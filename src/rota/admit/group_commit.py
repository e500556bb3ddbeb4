"""Group commit without a timer: submissions that arrive during a commit share the next one.

One transaction claims idempotency keys, locks parent tasks, copies rows and commits; each submission is answered after
the flush. A refused submission is taken out before the rows are copied. A lone task, as on an idle system, is written
by one statement. A COMMIT is never cancelled: after the deadline the connection is dropped, and the transaction's own
row in `admission_commits` tells whether it was committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID, uuid4

import asyncpg
import structlog

from rota.admit.artifacts import hold_artifacts
from rota.admit.graph_members import join_graphs
from rota.admit.submission import Admitted, Submission, make_rows
from rota.model.errors import Problem, unavailable
from rota.store import admission
from rota.store.admission import KeyClaim
from rota.store.database import CONNECTION_LOST, Connection, Database, close_quietly

log = structlog.get_logger()

DEADLINE_SECONDS = 5.0
MOST_ROWS = 4_000
WRITERS = 2
MOST_WAITING = 2_000
# A server node that is stopped in the middle of a commit holds idempotency keys: their clients try another node soon.
STOPPED_MS = "1000"

Commit = Callable[[], Awaitable[None]]


class GroupCommit:
    def __init__(self, database: Database, on_admitted: Callable[[Submission, Admitted], None]) -> None:
        self._database = database
        self._on_admitted = on_admitted
        self._waiting: deque[Submission] = deque()
        self._wake = asyncio.Event()

    async def join(self, submission: Submission) -> Admitted:
        """Returns when the submission is durable. Raises Problem if it is refused or the database is unreachable."""
        if len(self._waiting) >= MOST_WAITING:
            raise unavailable(f"{MOST_WAITING} submissions wait for the database already; try again")
        self._waiting.append(submission)
        self._wake.set()
        return await submission.done

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(self._writer(), name=f"group-commit-{number}")

    async def _writer(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                await self._wake.wait()
                batch = self._take_batch()
                if batch:
                    connection = await self._commit_batch(connection, batch)
        finally:
            await close_quietly(connection)

    def _take_batch(self) -> list[Submission]:
        """Takes waiting submissions in order, up to a bound.

        Submissions with the same idempotency key go into different batches: the second must see whether the first was
        committed.
        """
        batch: list[Submission] = []
        keys: set[tuple[int, bytes]] = set()
        rows = 0
        while self._waiting and (not batch or rows + len(self._waiting[0].drafts) <= MOST_ROWS):
            own = self._waiting[0].keys()
            if own & keys:
                break
            keys |= own
            batch.append(self._waiting.popleft())
            rows += len(batch[-1].drafts)
        if not self._waiting:
            self._wake.clear()
        return [submission for submission in batch if not submission.done.done()]

    async def _commit_batch(self, connection: Connection | None, batch: list[Submission]) -> Connection | None:
        """Tries until the batch is committed or its deadline has passed. Returns the connection for the next batch."""
        loop = asyncio.get_running_loop()
        deadline = max(submission.deadline for submission in batch)
        doubt: Problem | None = None
        pause = 0.02
        may_be_alone = True
        while batch and loop.time() < deadline:
            commit_id = uuid4()
            try:
                async with asyncio.timeout_at(deadline):
                    if connection is None or connection.is_closed():
                        connection = await self._database.direct(
                            "admission", idle_in_transaction_session_timeout=STOPPED_MS
                        )
                    admitted, commit = await _write(connection, commit_id, batch, may_be_alone=may_be_alone)
                committed = await self._commit(connection, commit, commit_id, deadline) if admitted else True
            except CONNECTION_LOST as error:
                log.warning("admission.connection_lost", submissions=len(batch), error=repr(error))
                _drop(connection)
                connection = None
                doubt = None
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.5)
                continue
            except asyncpg.TransactionRollbackError:  # deadlock with a settlement: nothing was written
                await _roll_back(connection)
                continue
            except Problem as error:
                await _roll_back(connection)
                _refuse(batch, error)
                return connection
            except (asyncpg.PostgresError, ValueError) as error:
                if may_be_alone and isinstance(error, asyncpg.UniqueViolationError):
                    may_be_alone = False  # its key was used before: the long way finds the task it was used for
                    await _roll_back(connection)
                    continue
                log.exception("admission.batch_rejected")
                _drop(connection)
                _refuse(batch, unavailable(f"the database refused the batch: {type(error).__name__}"))
                return None
            if not admitted:
                await _roll_back(connection)
                return connection
            if committed:
                for submission, outcome in admitted:
                    if not submission.done.done():
                        submission.done.set_result(outcome)
                    self._on_admitted(submission, outcome)
                return connection
            connection = None
            doubt = _outcome_unknown(batch) if committed is None else None
            batch = [submission for submission in batch if not submission.done.done()]
        _refuse(batch, doubt or unavailable("the database can't be reached right now; try again"))
        return connection

    async def _commit(self, connection: Connection, commit: Commit, commit_id: UUID, deadline: float) -> bool | None:
        """True: durable. False: certainly not. None: unknown when the deadline passed."""
        committing = asyncio.ensure_future(commit())
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.shield(committing)
            return True
        except CONNECTION_LOST as error:
            log.warning("admission.commit_in_doubt", commit_id=str(commit_id), error=repr(error))
            committing.cancel()
            _drop(connection)
        loop = asyncio.get_running_loop()
        while loop.time() < deadline:
            fresh: Connection | None = None
            try:
                async with asyncio.timeout_at(deadline):
                    fresh = await self._database.direct("doubt")
                    return await admission.was_committed(fresh, commit_id)
            except CONNECTION_LOST:
                await asyncio.sleep(0.05)
            finally:
                await close_quietly(fresh)
        return None


def _drop(connection: Connection | None) -> None:
    if connection is not None:
        connection.terminate()


async def _roll_back(connection: Connection | None) -> None:
    """Nothing was committed, so a connection that fails to roll back is dropped without doubt about the outcome."""
    try:
        if connection is not None:
            await admission.roll_back(connection)
    except CONNECTION_LOST:
        _drop(connection)


def _refuse(batch: list[Submission], problem: Problem) -> None:
    for submission in batch:
        if not submission.done.done():
            submission.done.set_exception(problem)


def _outcome_unknown(batch: list[Submission]) -> Problem:
    keys = [key for submission in batch for key in submission.key_texts()]
    return Problem(
        "outcome-unknown",
        status=503,
        title="It is not known whether the submission was stored",
        detail="the database did not confirm in time; send the same request again with the same idempotency key",
        retry_after_seconds=1.0,
        extra={"idempotency_key": keys[0] if keys else None},
    )


async def _write(
    connection: Connection, commit_id: UUID, batch: list[Submission], *, may_be_alone: bool
) -> tuple[list[tuple[Submission, Admitted]], Commit]:
    """Writes everything but the COMMIT, which is returned. Answers and leaves out submissions that are refused."""
    batch = [submission for submission in batch if not submission.done.done()]  # refused by an earlier try
    if may_be_alone and len(batch) == 1 and batch[0].is_one_plain_task():
        return _one_statement(connection, commit_id, batch[0])
    await admission.begin(connection, commit_id)
    earlier = await _claim(connection, batch)
    ids = [parent for submission in batch for draft in submission.drafts for parent in draft.parents]
    parents = await admission.lock_parents(connection, ids) if ids else {}
    admitted: list[tuple[Submission, Admitted]] = []
    rows, edges = [], []
    submitted: dict[int, list[int]] = {}
    for submission in sorted(batch, key=lambda each: each.caller.tenant_id):  # the order of the locks in `join_graphs`
        try:
            outcome, own_edges = make_rows(submission, earlier, parents)
            if submission.artifacts and outcome.rows:
                await hold_artifacts(connection, submission.caller.tenant_id, submission.artifacts)
            if outcome.rows:
                await join_graphs(connection, submission, outcome)
        except Problem as problem:
            claims = _own_claims(submission, earlier)
            if claims:
                await admission.drop_claims(connection, claims)
            _refuse([submission], problem)
            continue
        if outcome.rows:
            submitted.setdefault(submission.caller.tenant_id, []).extend(row.draft.id for row in outcome.rows)
        admitted.append((submission, outcome))
        edges += own_edges
        rows += outcome.rows
    if rows:
        await admission.copy_rows(connection, rows)
    if edges:
        await admission.copy_edges(connection, edges)
    return admitted, partial(admission.commit, connection, submitted)


def _one_statement(
    connection: Connection, commit_id: UUID, submission: Submission
) -> tuple[list[tuple[Submission, Admitted]], Commit]:
    """A lone task: nothing is written before its one statement, which commits too."""
    outcome, _ = make_rows(submission, {}, {})
    (rows,) = outcome.rows
    claim = next(iter(submission.claims()), None)
    return [(submission, outcome)], partial(admission.insert_alone, connection, commit_id, rows, claim)


async def _claim(connection: Connection, batch: list[Submission]) -> dict[tuple[int, bytes], KeyClaim]:
    """Claims the batch's keys. Returns the claims that others, or earlier tasks of the same submission, made first."""
    first: dict[tuple[int, bytes], KeyClaim] = {}
    repeated: dict[tuple[int, bytes], KeyClaim] = {}
    for claim in (claim for submission in batch for claim in submission.claims()):
        key = (claim.tenant, claim.key_hash)
        if first.setdefault(key, claim) is not claim:
            repeated[key] = first[key]
    if not first:
        return {}
    stored = await admission.claim_keys(connection, list(first.values()))
    # Of several tasks with one key the first one runs; `make_rows` sees that the claim is its own.
    return {**repeated, **stored}


def _own_claims(submission: Submission, earlier: dict[tuple[int, bytes], KeyClaim]) -> list[KeyClaim]:
    """The claims that this transaction made for the submission."""
    own = {draft.id for draft in submission.drafts}
    pairs = [(claim, earlier.get((claim.tenant, claim.key_hash))) for claim in submission.claims()]
    return [claim for claim, before in pairs if before is None or before.task in own]
