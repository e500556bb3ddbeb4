"""Log chunks as they come from agents, and noticing when there are many: long output is moved elsewhere later on
(`long_logs.py`). Nothing here waits for the object store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from rota.model.attempt import LogChunk
from rota.store.database import AnyConnection
from rota.store.statements import columns, sql

LATE_BYTES = 64 * 1024  # a result with more output than this inside brings what could not be sent before it
_MOST_COUNTED = 10_000

Attempt = tuple[int, int]


async def store_chunks(connection: AnyConnection, chunks: Sequence[LogChunk]) -> None:
    """Keeps chunks; one that is resent under the same number is kept once."""
    await connection.execute(
        sql("logs/insert_log_chunks"), *columns(chunks, "task", "attempt", "seq", "stream", "data")
    )


async def store_inline(connection: AnyConnection, chunks: Sequence[LogChunk]) -> None:
    """The same for output that came inside results, which is short but for an agent that could not send it."""
    await store_chunks(connection, chunks)
    if sum(len(chunk.data) for chunk in chunks) < LATE_BYTES:
        return
    sizes: dict[Attempt, int] = {}
    for chunk in chunks:
        sizes[chunk.task, chunk.attempt] = sizes.get((chunk.task, chunk.attempt), 0) + len(chunk.data)
    await note_long(connection, [attempt for attempt, size in sizes.items() if size >= LATE_BYTES])


async def note_long(connection: AnyConnection, attempts: Iterable[Attempt]) -> None:
    """Their output is to be looked at: it may be long enough to be moved."""
    noted = sorted(attempts)
    if noted:
        await connection.execute(sql("logs/note_long"), *columns(noted, 0, 1))


class LogCounter:
    """Counts the output of attempts that one agent sends over one connection, and notes each that becomes long."""

    def __init__(self, long_bytes: int) -> None:
        self._long_bytes = long_bytes
        self._sizes: OrderedDict[Attempt, int] = OrderedDict()

    async def store(self, connection: AnyConnection, chunks: Sequence[LogChunk]) -> None:
        noted: set[Attempt] = set()
        for chunk in chunks:
            attempt = (chunk.task, chunk.attempt)
            before = self._sizes.get(attempt)
            if before is None:
                before = 0 if chunk.seq == 0 else await _stored_bytes(connection, attempt)
            after = before + len(chunk.data)
            self._sizes[attempt] = after
            # Again with every further piece of that size: what came after the last look is looked at too.
            if after // self._long_bytes > before // self._long_bytes:
                noted.add(attempt)
        while len(self._sizes) > _MOST_COUNTED:
            self._sizes.popitem(last=False)
        if not noted:
            await store_chunks(connection, chunks)
            return
        async with connection.transaction():
            await store_chunks(connection, chunks)
            await note_long(connection, noted)


async def _stored_bytes(connection: AnyConnection, attempt: Attempt) -> int:
    """Sent over an earlier connection, perhaps to another server node."""
    size: int = await connection.fetchval(sql("logs/stored_bytes"), *attempt)
    return size
