"""Task ids in blocks: unique across all nodes, roughly increasing, short enough to type.

Blocks start small, so a laptop counts 1, 2, 3; they grow under load, so a busy node asks rarely; an unused rest is
dropped after a minute, so ids stay near the order of arrival.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg

from rota.store import admission
from rota.store.database import CONNECT_SECONDS, Connection, Database, close_quietly

SMALLEST = 16
LARGEST = 10_000
EXPIRE_SECONDS = 60.0
GROW_SECONDS = 10.0
PARTITION_SIZE = 5_000_000
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
        """So many new ids. Raises one of CONNECTION_LOST when the database is away."""
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
            await self._make_room(connection, first, first + amount)
        except BaseException:
            connection.terminate()
            raise
        self._next, self._end, self._taken_at = first, first + amount, time.monotonic()

    async def _make_room(self, connection: Connection, first: int, upper: int) -> None:
        """Partitions for these ids, and two ahead of them. One that is not needed yet may wait for the next block."""
        for number in range(first // PARTITION_SIZE, upper // PARTITION_SIZE + PARTITIONS_AHEAD + 1):
            start = number * PARTITION_SIZE
            if start < self._partitions_to:
                continue
            try:
                await admission.make_partition(connection, start, PARTITION_SIZE)
            except asyncpg.LockNotAvailableError as error:  # somebody reads a ledger for long
                if start < upper:
                    raise TimeoutError("the ledgers can't be extended right now") from error
                return
            self._partitions_to = start + PARTITION_SIZE

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.direct("ids")
        return self._connection
