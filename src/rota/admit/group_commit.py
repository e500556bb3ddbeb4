"""Group commit without a timer: requests that arrive while a commit is in flight share the next one.

A flight is one transaction: keys claimed, parents locked, rows copied, committed; every request on board is answered
after the flush. A COMMIT is never cancelled: past the deadline the connection is dropped and the outcome is in doubt,
to be settled by the flight's own row. A request that must be refused leaves the flight before the rows are copied.
A task that flies alone, as on an idle system, goes in one statement.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID, uuid4

import asyncpg
import structlog

from rota.admit.submission import Landed, Load, place
from rota.model.artifact import identity
from rota.model.errors import Fault, Problem, invalid, unavailable
from rota.store import admission, graphs
from rota.store.admission import KeyClaim, Parent
from rota.store.artifacts import lock_artifacts
from rota.store.database import CONNECTION_LOST, Connection, Database, close_quietly

log = structlog.get_logger()

DEADLINE_SECONDS = 5.0
MOST_ROWS = 4_000
PILOTS = 2
MOST_WAITING = 2_000


class Flights:
    def __init__(self, database: Database, on_landed: Callable[[Load, Landed], None]) -> None:
        self._database = database
        self._on_landed = on_landed
        self._waiting: deque[Load] = deque()
        self._wake = asyncio.Event()

    async def board(self, load: Load) -> Landed:
        """Waits until the load is durable. Raises Problem when it is refused or the database is away."""
        if len(self._waiting) >= MOST_WAITING:
            raise unavailable("too many submissions wait for the database")
        self._waiting.append(load)
        self._wake.set()
        return await load.done

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(PILOTS):
                group.create_task(self._pilot(), name=f"flight-{number}")

    async def _pilot(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                await self._wake.wait()
                loads = self._take()
                if loads:
                    connection = await self._fly(connection, loads)
        finally:
            await close_quietly(connection)

    def _take(self) -> list[Load]:
        """The next flight: whatever waits, in order, up to a bound. Two loads with one key fly one after the other,

        so that the second meets the first one's outcome rather than its intention.
        """
        loads: list[Load] = []
        keys: set[tuple[int, bytes]] = set()
        rows = 0
        while self._waiting and (not loads or rows + len(self._waiting[0].drafts) <= MOST_ROWS):
            own = self._waiting[0].keys()
            if own & keys:
                break
            keys |= own
            loads.append(self._waiting.popleft())
            rows += len(loads[-1].drafts)
        if not self._waiting:
            self._wake.clear()
        return [load for load in loads if not load.done.done()]

    async def _fly(self, connection: Connection | None, loads: list[Load]) -> Connection | None:
        """Tries until the flight has landed or its deadline has passed. Returns the connection to go on with."""
        loop = asyncio.get_running_loop()
        deadline = max(load.deadline for load in loads)
        doubt: Problem | None = None
        pause = 0.02
        may_be_alone = True
        while loads and loop.time() < deadline:
            flight = uuid4()
            try:
                async with asyncio.timeout_at(deadline):
                    if connection is None or connection.is_closed():
                        connection = await self._database.direct("admission")
                    landed, finish = await _write(connection, flight, loads, may_be_alone=may_be_alone)
                committed = await self._commit(connection, finish, flight, deadline) if landed else True
            except CONNECTION_LOST as error:
                log.warning("flight.aborted", loads=len(loads), error=repr(error))
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
                _refuse(loads, error)
                return connection
            except (asyncpg.PostgresError, ValueError) as error:
                if may_be_alone and isinstance(error, asyncpg.UniqueViolationError):
                    may_be_alone = False  # its key was used before: what for is found the long way
                    await _roll_back(connection)
                    continue
                log.exception("flight.rejected")
                _drop(connection)
                _refuse(loads, unavailable(f"the database refused the batch: {type(error).__name__}"))
                return None
            if not landed:
                await _roll_back(connection)
                return connection
            if committed:
                for load, landing in landed:
                    self._land(load, landing)
                return connection
            connection = None
            doubt = _outcome_unknown(loads) if committed is None else None
            loads = [load for load in loads if not load.done.done()]
        _refuse(loads, doubt or unavailable("the database can't be reached right now; try again"))
        return connection

    async def _commit(
        self, connection: Connection, finish: Callable[[], Awaitable[None]], flight: UUID, deadline: float
    ) -> bool | None:
        """True: durable. False: certainly not. None: the deadline passed before anybody could tell."""
        commit = asyncio.ensure_future(finish())
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.shield(commit)
            return True
        except CONNECTION_LOST as error:
            log.warning("flight.in_doubt", flight=str(flight), error=repr(error))
            commit.cancel()
            _drop(connection)
        loop = asyncio.get_running_loop()
        while loop.time() < deadline:
            fresh: Connection | None = None
            try:
                async with asyncio.timeout_at(deadline):
                    fresh = await self._database.direct("doubt")
                    return await admission.was_committed(fresh, flight)
            except CONNECTION_LOST:
                await asyncio.sleep(0.05)
            finally:
                if fresh is not None:
                    await close_quietly(fresh)
        return None

    def _land(self, load: Load, landed: Landed) -> None:
        if not load.done.done():
            load.done.set_result(landed)
        self._on_landed(load, landed)


def _drop(connection: Connection | None) -> None:
    if connection is not None:
        connection.terminate()


async def _roll_back(connection: Connection | None) -> None:
    """Nothing was committed, so nothing is in doubt: a connection that can't even roll back is dropped."""
    try:
        if connection is not None:
            await admission.roll_back(connection)
    except CONNECTION_LOST:
        _drop(connection)


def _refuse(loads: list[Load], problem: Problem) -> None:
    for load in loads:
        if not load.done.done():
            load.done.set_exception(problem)


def _outcome_unknown(loads: list[Load]) -> Problem:
    keys = [key for load in loads for key in (load.batch_key, *(d.idempotency_key for d in load.drafts)) if key]
    return Problem(
        "outcome-unknown", status=503, title="It is not known whether the submission was stored",
        detail="the database did not confirm in time; send the same request again with the same idempotency key",
        retry_after_seconds=1.0, extra={"idempotency_key": keys[0] if keys else None},
    )  # fmt: skip


async def _write(
    connection: Connection, flight: UUID, loads: list[Load], *, may_be_alone: bool
) -> tuple[list[tuple[Load, Landed]], Callable[[], Awaitable[None]]]:
    """Everything up to the commit, and what is left then. Loads that must be refused are answered and left out."""
    loads = [load for load in loads if not load.done.done()]  # refused by an earlier try of this flight
    if may_be_alone and len(loads) == 1 and loads[0].is_one_plain_task():
        return _write_nothing_yet(connection, flight, loads[0])
    await admission.begin(connection, flight)
    earlier = await _claim(connection, loads)
    parents = await _lock(connection, loads)
    landed: list[tuple[Load, Landed]] = []
    tasks, queue, edges = [], [], []
    tagged: list[int] = []
    for load in loads:
        try:
            landing, load_edges = place(load, earlier, parents)
            if load.artifacts and landing.rows:
                await _hold_artifacts(connection, load)
        except Problem as problem:
            claims = _own_claims(load, earlier)
            if claims:
                await admission.drop_claims(connection, claims)
            _refuse([load], problem)
            continue
        if landing.rows:
            await _take_into_graph(connection, load, landing)
        landed.append((load, landing))
        edges += load_edges
        tagged += [draft.id for draft in load.drafts if draft.template.tags is not None]
        for rows in landing.rows:
            tasks.append(rows.task)
            queue.append(rows.queue)
    if tasks:
        await admission.copy_tasks(connection, tasks)
        await admission.copy_queue(connection, queue)
        if tagged:
            await admission.keep_tags(connection, tagged)
    if edges:
        await admission.copy_edges(connection, edges)
    return landed, partial(admission.commit, connection)


def _write_nothing_yet(
    connection: Connection, flight: UUID, load: Load
) -> tuple[list[tuple[Load, Landed]], Callable[[], Awaitable[None]]]:
    landing, _ = place(load, {}, {})
    (rows,) = landing.rows
    claim = next(iter(load.claims()), None)
    tagged = load.drafts[0].template.tags is not None
    write = partial(admission.insert_alone, connection, flight, rows.task, rows.queue, claim, tagged=tagged)
    return [(load, landing)], write


async def _take_into_graph(connection: Connection, load: Load, landing: Landed) -> None:
    if load.graph is not None:
        await graphs.insert_graph(connection, load.graph)
        landing.graph = load.graph.id
    elif load.parent is not None:
        replayed = frozenset(landing.replayed)
        new = [draft for index, draft in enumerate(load.drafts) if index not in replayed]
        names = [draft.template.name for draft in new]
        await graphs.join_graph(connection, load.parent, load.caller.tenant_id, [draft.id for draft in new], names)


async def _claim(connection: Connection, loads: list[Load]) -> dict[tuple[int, bytes], KeyClaim]:
    """Claims that were there before ours, by earlier requests or by an earlier task of the same batch."""
    first: dict[tuple[int, bytes], KeyClaim] = {}
    repeated: dict[tuple[int, bytes], KeyClaim] = {}
    for load in loads:
        for claim in load.claims():
            key = (claim.tenant, claim.key_hash)
            if key in first:
                repeated[key] = first[key]
            else:
                first[key] = claim
    if not first:
        return {}
    stored = await admission.claim_keys(connection, list(first.values()))
    # Within a batch the first task with a key is the one that runs; `_place` sees that the claim is its own.
    return {**repeated, **stored}


def _own_claims(load: Load, earlier: dict[tuple[int, bytes], KeyClaim]) -> list[KeyClaim]:
    """The claims this flight made for the load, also those that an earlier task of its own batch made."""
    own = {draft.id for draft in load.drafts}
    found = [(claim, earlier.get((claim.tenant, claim.key_hash))) for claim in load.claims()]
    return [claim for claim, before in found if before is None or before.task in own]


async def _lock(connection: Connection, loads: list[Load]) -> dict[int, Parent]:
    ids = [parent for load in loads for draft in load.drafts for parent in draft.parents]
    return await admission.lock_parents(connection, ids) if ids else {}


async def _hold_artifacts(connection: Connection, load: Load) -> None:
    """Nobody removes what its tasks name until they are stored, and named there. Refused if somebody just did."""
    held = await lock_artifacts(connection, load.caller.tenant_id, sorted(load.artifacts))
    gone = load.artifacts - held
    if gone:
        raise invalid([Fault("", "unknown-artifact", f"{identity(min(gone))} was removed meanwhile; upload it again")])
