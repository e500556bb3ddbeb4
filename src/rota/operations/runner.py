"""The loop that works on operations, in every server node.

A batch is one transaction that begins by locking the row of its operation and ends by saving how far it came. So a node
that dies loses at most the batch under way, whose changes are undone with it, and another node goes on from the row:
there is nothing to take over. The operation that has waited longest is next, so a large one does not hold up small
ones. Between batches the loop rests, so that submissions and starts come in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import asyncpg
import structlog

from rota.model.errors import Problem
from rota.operations.batch import Batch, Batches
from rota.store import operations
from rota.store.database import CONNECTION_LOST, Connection, Database, close_quietly
from rota.store.operations import Operation
from rota.store.selection import FEWEST_EXAMINED

log = structlog.get_logger()

POLL_SECONDS = 2.0  # for operations that were started on other nodes
RESTING_PART = 0.25  # of the time that a batch took
POLL_WHILE_WAITING_SECONDS = 0.25  # for the end of an operation that another node works on


class Operations:
    def __init__(self, database: Database, batches: Batches, *, tell: Callable[[Batch], None]) -> None:
        self._database = database
        self._batches = batches
        self._tell = tell
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()  # an operation has come further; replaced each time
        self._connection: Connection | None = None
        self._examine: dict[int, int] = {}  # operation → how many candidates its next batch examines
        self._closed = False

    def started(self) -> None:
        """Wakes the loop after the start of an operation on this node."""
        self._wake.set()

    def close(self) -> None:
        """This node is stopping: clients that wait are answered at once."""
        self._closed = True
        self._say_moved()

    async def moved(self, seconds: float) -> bool:
        """Waits until an operation may have come further, at most so long. False: this node is stopping."""
        moved = self._moved
        with suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, POLL_WHILE_WAITING_SECONDS)):
                await moved.wait()
        return not self._closed

    async def run(self) -> None:
        try:
            while True:
                began = time.monotonic()
                worked = await self._turn_safely()
                if worked:
                    await asyncio.sleep(RESTING_PART * (time.monotonic() - began))
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            await close_quietly(self._connection)

    async def _turn_safely(self) -> bool:
        """One batch. False: there is nothing to do now."""
        taken: list[Operation] = []
        try:
            return await self._turn(taken)
        except asyncpg.TransactionRollbackError as error:  # a deadlock: nothing was changed
            log.debug("operations.rolled_back", error=repr(error))
            return True
        except (Problem, *CONNECTION_LOST) as error:
            log.warning("operations.put_off", error=repr(error))
            await self._lose_connection()
            return False
        except Exception:  # a bug: it must not come back with every turn, nor stop the other operations
            log.exception("operations.crashed", operation=taken[0].id if taken else None)
            await self._lose_connection()
            if taken:
                await self._fail(taken[0])
            return False

    async def _turn(self, taken: list[Operation]) -> bool:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.direct("operations", pinned=True)
        connection = self._connection
        async with connection.transaction():
            operation = await operations.take_next(connection)
            if operation is None:
                self._examine.clear()
                return False
            taken.append(operation)
            examine = self._examine.pop(operation.id, FEWEST_EXAMINED)
            batch = await self._batches.make(connection, operation, examine)
            await operations.save_progress(connection, operation, batch.progress)
        if batch.progress.before_id is not None:
            self._examine[operation.id] = batch.examine_next
        self._tell(batch)
        self._say_moved()
        return True

    async def _fail(self, operation: Operation) -> None:
        try:
            async with self._database.engine() as connection:
                await operations.fail_operation(
                    connection, operation.id, "an error of the server; its log has the details"
                )
        except Problem as error:
            log.warning("operations.not_failed", operation=operation.id, error=error.detail)
        self._say_moved()

    async def _lose_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _say_moved(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
