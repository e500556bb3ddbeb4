"""Connections to the modelled database: latency, stalls, lost requests and replies, restarts.

A statement arrives, may stall, runs atomically, is durable, and then is answered. A transaction does the same with
several statements. A stalled fenced operation holds the fence's lock: a take-over waits for it or ends its backend. A
client without a reply gets `Lost` after a while; its operation may still be carried out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from rota.simulate.world.database.contents import Target
from rota.simulate.world.database.rows import CLOCK_BASE_US
from rota.simulate.world.database.tables import Tables
from rota.simulate.world.kernel import Call, Fiber, Kernel, Process, Story
from rota.simulate.world.sometimes import Sometimes

FENCED_RISK = 12.0  # the nemesis strikes this much more often just before a leader's batch
STATEMENT_SECONDS = 10.0  # statement_timeout


class Lost(OSError):
    """The connection is lost; the operation may have been carried out or not."""


@dataclass(slots=True, eq=False)
class Operation:
    """One statement or transaction in transit."""

    connection: SimConnection
    fiber: Fiber
    ticket: int
    ended: bool = False
    until: float = 0.0
    fenced_before: bool | None = None
    paused_before: frozenset[Target] | None = None


class Store:
    """The database server."""

    def __init__(self, kernel: Kernel, tables: Tables, sometimes: Sometimes, story: Story) -> None:
        self.kernel = kernel
        self.tables = tables
        self.up = True
        self.latency = 0.002
        self.lost_requests = 0.0  # probabilities, set by the nemesis
        self.lost_replies = 0.0
        self.stalls = 0.0
        self.on_stall: Callable[[Process], None] | None = None
        self.cut: dict[str, float] = {}  # process → cut off until that time
        self._open: dict[int, list[Operation]] = {}  # pool → fenced operations that hold the lock
        self._sometimes = sometimes
        self._story = story

    @staticmethod
    def clock_us(kernel: Kernel) -> int:
        return CLOCK_BASE_US + int(kernel.now * 1_000_000)

    def reachable(self, process: Process) -> bool:
        return self.up and self.cut.get(process.name, 0.0) <= self.kernel.now

    def restart(self, seconds: float) -> None:
        """A crash, or a fail-over that loses nothing: operations that have not run never run."""
        self.up = False
        self._story.tell("database", f"goes away for {seconds:.1f} s")
        for operations in self._open.values():
            for operation in list(operations):
                self._abort(operation)
        self._open.clear()
        self.kernel.after(seconds, self.come_back)

    def come_back(self) -> None:
        if not self.up:
            self.up = True
            self._story.tell("database", "is back")

    # ---- the path of one operation ----------------------------------------------------------------------------------

    def begin(self, connection: SimConnection, fiber: Fiber, ticket: int, text: str, arguments: Sequence[Any]) -> None:
        operation = Operation(connection, fiber, ticket)
        connection.pending.append(operation)
        chance = self.kernel.random
        if connection.closed or not self.reachable(connection.process):
            connection.closed = True
            self._give_up(operation, chance.uniform(0.01, 3.0))
            return
        if self.lost_requests and chance.random() < self.lost_requests:
            self._story.tell(connection.process.name, "a request to the database is lost; it never happens")
            self._sometimes.hit("ambiguous commit, not applied")
            self._give_up(operation, chance.uniform(0.05, 4.0))
            return
        if not self.stalls and _only_reads(text):
            # A read may run at once; that saves an event for three statements in four.
            self.answer(operation, self.run(connection, operation, text, arguments), ways=2)
            return
        travel = self.latency * chance.uniform(0.5, 1.5)
        self.kernel.after(travel, self._arrive, operation, text, arguments)

    def _arrive(self, operation: Operation, text: str, arguments: Sequence[Any]) -> None:
        connection = operation.connection
        if operation.ended:
            return
        if not self.up:
            self._give_up(operation, 0.01)
            return
        takes = 0.0
        batch = connection.writes(text)
        if self.stalls and self.kernel.random.random() < self.stalls * (3.0 if batch else 1.0):
            takes = self.kernel.random.uniform(0.1, STATEMENT_SECONDS * 0.9)
            if batch and self.kernel.random.random() < 0.5:
                takes = STATEMENT_SECONDS * 0.99
            self._story.tell(connection.process.name, f"a statement stalls for {takes:.1f} s")
            if self.kernel.random.random() < 0.3:  # the client loses the connection before the statement has run
                self.kernel.after(self.kernel.random.uniform(0.05, takes), self._give_up, operation, 0.0)
        if not takes:
            self._execute(operation, text, arguments)
            return
        connection.open_operations.append(operation)
        operation.until = self.kernel.now + takes
        operation.paused_before = self.tables.paused()
        if connection.fence is not None:
            pool, epoch, holder = connection.fence
            operation.fenced_before = self.tables.fence_holds(pool, epoch, holder)
            self._open.setdefault(pool, []).append(operation)
        self.kernel.at(operation.until, self._execute, operation, text, arguments)
        if batch and self.on_stall is not None:
            self.on_stall(connection.process)

    def _execute(self, operation: Operation, text: str, arguments: Sequence[Any]) -> None:
        if operation.ended or not self.up:
            self._give_up(operation, 0.01)
            return
        connection = operation.connection
        if connection.takes_over is not None:
            wait = self._locked_until(connection.takes_over, connection)
            if wait > self.kernel.now:
                self.kernel.at(wait, self._execute, operation, text, arguments)
                return
        self._close(operation)
        if text == BEGIN and operation not in connection.pending:
            return  # the client is gone: rolled back
        if text == BEGIN:
            # The body runs now, in the client's own step; `_Commit` answers.
            connection.enter(operation)
            operation.fiber.resume(operation.ticket, operation)
            return
        rows = self.run(connection, operation, text, arguments)
        self.answer(operation, rows)

    def run(self, connection: SimConnection, operation: Operation, text: str, arguments: Sequence[Any]) -> list[Any]:
        tables = self.tables
        process = connection.process
        tables.process = process.name
        tables.wall_us = tables.now_us() + int(process.wall_offset * 1_000_000)
        tables.fenced_before = operation.fenced_before
        tables.paused_before = operation.paused_before
        tables.fence = None
        return tables.run(text, arguments)

    def answer(self, operation: Operation, value: Any, ways: int = 1) -> None:
        chance = self.kernel.random
        process = operation.connection.process
        if (self.lost_replies and chance.random() < self.lost_replies) or not self.reachable(process):
            self._story.tell(process.name, "a reply of the database is lost; it did happen")
            self._sometimes.hit("ambiguous commit, applied")
            self._give_up(operation, chance.uniform(0.05, 4.0))
            return
        self.kernel.after(ways * self.latency * chance.uniform(0.5, 1.5), self._reply, operation, value)

    def _reply(self, operation: Operation, value: Any) -> None:
        if operation in operation.connection.pending:
            operation.connection.pending.remove(operation)
            operation.fiber.resume(operation.ticket, value)

    def _give_up(self, operation: Operation, seconds: float) -> None:
        """The client learns later that its connection is lost."""
        if operation in operation.connection.pending:
            operation.connection.pending.remove(operation)
            operation.connection.closed = True
            self.kernel.after(seconds, operation.fiber.fail, operation.ticket, Lost("the connection is gone"))

    def _abort(self, operation: Operation) -> None:
        operation.ended = True
        self._give_up(operation, self.kernel.random.uniform(0.01, 1.0))

    def _close(self, operation: Operation) -> None:
        if operation in operation.connection.open_operations:
            operation.connection.open_operations.remove(operation)
        if operation.connection.fence is not None:
            operations = self._open.get(operation.connection.fence[0], [])
            if operation in operations:
                operations.remove(operation)

    def _locked_until(self, pool: int, connection: SimConnection) -> float:
        """A take-over ends the old holder's backends; it waits for one that is about to commit."""
        lease = self.tables.leases.get(pool)
        if lease is None:
            return 0.0
        until = 0.0
        expired = lease.expires_us < self.tables.now_us()
        for operation in list(self._open.get(pool, ())):
            if expired and self.kernel.random.random() < 0.5:
                self._story.tell(connection.process.name, "ends a backend of the old leader")
                self._close(operation)
                self._abort(operation)
            else:
                until = max(until, operation.until)
        return until

    def end_backends(self, connection: SimConnection) -> None:
        """Ends the open operations of a lost connection."""
        for operation in list(connection.open_operations):
            operation.ended = True
            self._close(operation)


@cache
def _only_reads(text: str) -> bool:
    """Whether the statement neither changes nor locks anything, so that its exact time does not matter."""
    words = [word for line in text.splitlines() if not line.startswith("--") for word in line.split()]
    return words[:1] == ["select"] and not {"update", "share", "insert", "delete"} & set(words)


BEGIN = "begin"


class SimConnection:
    """The methods of a connection that production code calls."""

    def __init__(self, store: Store, process: Process, fence: tuple[int, int, object] | None = None) -> None:
        self.store = store
        self.process = process
        self.fence = fence
        self.takes_over: int | None = None  # the pool whose lease this connection may take over
        self.closed = False
        self.pending: list[Operation] = []
        self.open_operations: list[Operation] = []
        self._inside: Operation | None = None

    def writes(self, text: str) -> bool:
        """Whether this is one of a leader's fenced batches."""
        return self.fence is not None and (text == BEGIN or "leases" in text)

    def is_closed(self) -> bool:
        return self.closed

    async def fetch(self, text: str, *arguments: Any) -> list[Any]:
        if self._inside is not None:
            return self.store.tables.run(text, arguments)
        rows: list[Any] = await _Ask(self, text, arguments)
        return rows

    async def fetchrow(self, text: str, *arguments: Any) -> Any:
        rows = await self.fetch(text, *arguments)
        return rows[0] if rows else None

    async def fetchval(self, text: str, *arguments: Any) -> Any:
        rows = await self.fetch(text, *arguments)
        return rows[0][0] if rows else None

    async def execute(self, text: str, *arguments: Any) -> None:
        await self.fetch(text, *arguments)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A body that awaits only its own statements runs at one instant, so it needs no rollback.

        A body that raises has changed nothing: the fence is its first statement.
        """
        await _Ask(self, BEGIN, ())
        try:
            yield
        except BaseException:
            if self._inside in self.pending:
                self.pending.remove(self._inside)
            self._inside = None
            raise
        operation, self._inside = self._inside, None
        if operation is not None:
            await _Commit(operation)

    def enter(self, operation: Operation) -> None:
        self._inside = operation
        self.store.tables.process = self.process.name
        self.store.tables.fenced_before = operation.fenced_before
        self.store.tables.paused_before = None  # each statement of a transaction has a snapshot of its own
        self.store.tables.fence = None


class _Ask(Call):
    def __init__(self, connection: SimConnection, text: str, arguments: Sequence[Any]) -> None:
        self.risk = FENCED_RISK if connection.writes(text) else 1.0
        self._connection = connection
        self._text = text
        self._arguments = arguments

    def begin(self, fiber: Fiber, ticket: int) -> None:
        self._connection.store.begin(self._connection, fiber, ticket, self._text, self._arguments)


class _Commit(Call):
    """The body has run and is durable; only the reply is missing."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    def begin(self, fiber: Fiber, ticket: int) -> None:
        operation = self._operation
        operation.fiber, operation.ticket = fiber, ticket
        operation.connection.store.answer(operation, None)


class Fenced:
    """A leader's connection, as `dispatch/fenced_connection.py`: replaced when lost, after ending the old backend."""

    def __init__(self, store: Store, process: Process, fence: tuple[int, int, object]) -> None:
        self._store = store
        self._process = process
        self._fence = fence
        self._connection: SimConnection | None = None
        self._doubtful: list[SimConnection] = []

    async def get(self) -> SimConnection:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        if self._connection is not None:
            self._doubtful.append(self._connection)
            self._connection = None
        await self._process.sleep(self._store.latency)
        if not self._store.reachable(self._process):
            await self._process.sleep(1.0)
            raise Lost("the database can't be reached")
        for old in self._doubtful:
            self._store.end_backends(old)
        self._doubtful.clear()
        self._connection = SimConnection(self._store, self._process, self._fence)
        return self._connection

    def lost(self) -> None:
        if self._connection is not None:
            self._connection.closed = True
            self._doubtful.append(self._connection)
            self._connection = None
