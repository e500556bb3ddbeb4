"""Takes task ids in blocks: unique across all nodes, roughly increasing, short enough to type.

Blocks start small, so that a laptop counts 1, 2, 3, and grow under load, so that a busy node asks rarely. The rest of
a block expires after a minute, so that ids stay near the order of arrival.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg

from rota.store import admission
from rota.store.database import CONNECT_SECONDS, Connection, Database, close_quietly
from rota.store.task_rows import PARTITION_SIZE

SMALLEST = 16
LARGEST = 10_000
EXPIRE_SECONDS = 60.0
GROW_SECONDS = 10.0
PARTITIONS_AHEAD = 2


class IdBlocks:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._next = 0
        self._end = 0
        self._taken_at = 0.0
        self._size = SMALLEST
        self._partitions_to = 0

    async def take(self, amount: int) -> list[int]:
        """New ids. Raises one of CONNECTION_LOST if the database is unreachable."""
        async with self._lock:
            if time.monotonic() - self._taken_at > EXPIRE_SECONDS:
                self._next = self._end
                self._size = SMALLEST
            ids = list(range(self._next, min(self._next + amount, self._end)))
            self._next += len(ids)
            missing = amount - len(ids)
            if missing:
                await self._refill(missing)
                ids += range(self._next, self._next + missing)
                self._next += missing
            return ids

    async def close(self) -> None:
        await close_quietly(self._connection)

    async def _refill(self, least: int) -> None:
        if time.monotonic() - self._taken_at < GROW_SECONDS:
            self._size = min(self._size * 4, LARGEST)
        amount = max(least, self._size)
        connection = await self._connect()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                first = await admission.take_ids(connection, amount)
            await self._make_partitions(connection, first, first + amount)
        except BaseException:
            connection.terminate()
            raise
        self._next, self._end, self._taken_at = first, first + amount, time.monotonic()

    async def _make_partitions(self, connection: Connection, first: int, upper: int) -> None:
        """Makes the partitions of these ids and of the next ones. One that is not needed yet may wait."""
        for number in range(first // PARTITION_SIZE, upper // PARTITION_SIZE + PARTITIONS_AHEAD + 1):
            start = number * PARTITION_SIZE
            if start < self._partitions_to:
                continue
            try:
                await admission.make_partition(connection, start, PARTITION_SIZE)
            except asyncpg.LockNotAvailableError as error:  # a long read holds the table
                if start < upper:
                    raise TimeoutError("partitions of tasks and attempts can't be made right now") from error
                return
            self._partitions_to = start + PARTITION_SIZE

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.direct("ids")
        return self._connection
