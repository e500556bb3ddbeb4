"""Stores log chunks from agents, and notes long output, which `long_logs.py` moves to the object store later. It must
never wait for the object store. Chunks of a tail delete those that they replace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from rota.model.attempt import TAIL_SEQ, LogChunk
from rota.store.database import AnyConnection
from rota.store.statements import columns, sql

LATE_BYTES = 64 * 1024  # a result with more inline output than this brings output that could not be sent before
CROWDED_BYTES = 8 * 1024 * 1024  # so much more output of an attempt, and it should move before more is taken
MOST_ROW_BYTES = 32 * 1024 * 1024  # of one attempt in the database: beyond it only the end of its output is taken
_MOST_COUNTED = 10_000

Attempt = tuple[int, int]


async def store_chunks(connection: AnyConnection, chunks: Sequence[LogChunk]) -> None:
    """Stores chunks; a chunk that is sent again under the same number is stored once."""
    replaced = [
        (chunk.task, chunk.attempt, gone.stream, gone.first, gone.before)
        for chunk in chunks
        if chunk.replaced
        for gone in chunk.replaced
    ]
    if not replaced:
        await _insert(connection, chunks)
        return
    async with connection.transaction():
        await _insert(connection, chunks)
        await connection.executemany(sql("logs/drop_replaced"), replaced)


async def _insert(connection: AnyConnection, chunks: Sequence[LogChunk]) -> None:
    await connection.execute(
        sql("logs/insert_log_chunks"), *columns(chunks, "task", "attempt", "seq", "stream", "data", "offset")
    )


async def store_inline(connection: AnyConnection, chunks: Sequence[LogChunk]) -> None:
    """Stores the output inside results: short, unless the agent could not send it before."""
    await store_chunks(connection, chunks)
    if sum(len(chunk.data) for chunk in chunks) < LATE_BYTES:
        return
    sizes: dict[Attempt, int] = {}
    for chunk in chunks:
        sizes[chunk.task, chunk.attempt] = sizes.get((chunk.task, chunk.attempt), 0) + len(chunk.data)
    await note_long(connection, [attempt for attempt, size in sizes.items() if size >= LATE_BYTES])


async def note_long(connection: AnyConnection, attempts: Iterable[Attempt]) -> None:
    """Notes attempts whose output may be long enough to be moved."""
    noted = sorted(attempts)
    if noted:
        await connection.execute(sql("logs/note_long"), *columns(noted, 0, 1))


class LogCounter:
    """Counts the output that one agent sends over one connection, and notes attempts whose output becomes long."""

    def __init__(self, long_bytes: int) -> None:
        self._long_bytes = long_bytes
        self._sizes: OrderedDict[Attempt, int] = OrderedDict()

    async def store(self, connection: AnyConnection, chunks: Sequence[LogChunk]) -> set[Attempt]:
        """Returns the attempts whose output has become longer by another `CROWDED_BYTES`."""
        noted: set[Attempt] = set()
        crowded: set[Attempt] = set()
        for chunk in chunks:
            if chunk.seq >= TAIL_SEQ:
                continue  # bounded: newer chunks replace older ones
            attempt = (chunk.task, chunk.attempt)
            before = self._sizes.get(attempt)
            if before is None:
                before = 0 if chunk.seq == 0 else await _stored_bytes(connection, attempt)
            after = before + len(chunk.data)
            self._sizes[attempt] = after
            # Noted again after each further `long_bytes`, for the output that came after the last move.
            if after // self._long_bytes > before // self._long_bytes:
                noted.add(attempt)
            if after // CROWDED_BYTES > before // CROWDED_BYTES:
                crowded.add(attempt)
        while len(self._sizes) > _MOST_COUNTED:
            self._sizes.popitem(last=False)
        if not noted:
            await store_chunks(connection, chunks)
            return crowded
        async with connection.transaction():
            await store_chunks(connection, chunks)
            await note_long(connection, noted)
        return crowded


async def _stored_bytes(connection: AnyConnection, attempt: Attempt) -> int:
    """The bytes sent over earlier connections, perhaps to other server nodes."""
    size: int = await connection.fetchval(sql("logs/stored_bytes"), *attempt, TAIL_SEQ)
    return size
