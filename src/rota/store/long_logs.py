"""The rows of long output that moves to the object store. The object exists before its row, and the row's transaction
deletes the chunks, so output is always either in rows or in an object, whichever process dies (see `artifacts.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from rota.model.attempt import TAIL_SEQ
from rota.model.clock import from_us, to_us
from rota.store.artifacts import take_up
from rota.store.database import AnyConnection
from rota.store.log_segments import SEGMENT_BYTES, SEGMENT_CHUNKS, StoredChunk, offset_of
from rota.store.logs import Attempt
from rota.store.statements import sql

FORGOTTEN_HOURS = 24  # output with a gap that is not filled for so long stays in rows
_SEGMENTS_A_ROUND = 500
_NO_SEQ = 2**31 - 1


class AlreadyMoved(Exception):
    """Another node has moved or removed these chunks; the object is not needed."""


@dataclass(frozen=True, slots=True)
class LongLog:
    """The facts about an attempt's output before a part of it is moved."""

    tenant: int
    running: bool
    last_seq: int  # the last chunk that was moved; -1: none
    moved_bytes: int
    head_bytes: int  # waiting to be moved: chunks that stay
    tail_bytes: int  # and those that newer ones may replace while it runs
    kept_bytes: int | None  # all of it, once the attempt has ended; None: nobody knows

    @property
    def total_bytes(self) -> int:
        return self.moved_bytes + self.head_bytes + self.tail_bytes


async def claim_long(connection: AnyConnection, *, at_most: int, for_seconds: float) -> list[Attempt]:
    """Claims attempts to examine now. The claim lapses after `for_seconds`."""
    rows = await connection.fetch(sql("long_logs/claim_long"), at_most, for_seconds)
    return [(row["task"], row["attempt"]) for row in rows]


async def postpone(connection: AnyConnection, attempt: Attempt, *, seconds: float) -> None:
    await connection.execute(sql("long_logs/postpone"), *attempt, seconds)


async def forget_long(connection: AnyConnection, attempt: Attempt, *, older_than_hours: int = 0) -> None:
    await connection.execute(sql("long_logs/forget_long"), *attempt, older_than_hours)


async def read_long(connection: AnyConnection, attempt: Attempt) -> LongLog | None:
    row = await connection.fetchrow(sql("long_logs/long_log_facts"), *attempt, TAIL_SEQ)
    return None if row is None else LongLog(**row)


async def next_chunks(connection: AnyConnection, attempt: Attempt, *, after: int) -> list[StoredChunk]:
    """Chunks for one segment, up to the first gap: the rest waits until the gap is filled."""
    chunks = await _chunks_between(connection, attempt, after, TAIL_SEQ)
    return [chunk for place, chunk in enumerate(chunks, after + 1) if chunk.seq == place]


async def next_tail_chunks(connection: AnyConnection, attempt: Attempt, *, after: int) -> list[StoredChunk]:
    """Chunks of a tail that is complete: its gaps are what newer chunks replaced."""
    return await _chunks_between(connection, attempt, max(after, TAIL_SEQ - 1), _NO_SEQ)


async def _chunks_between(connection: AnyConnection, attempt: Attempt, after: int, before: int) -> list[StoredChunk]:
    rows = await connection.fetch(
        sql("long_logs/chunks_to_move"), *attempt, after, before, SEGMENT_BYTES, SEGMENT_CHUNKS
    )
    return [
        StoredChunk(row["seq"], row["stream"], to_us(row["at"]), row["data"], offset_of(row["byte_offset"]))
        for row in rows
    ]


async def keep_segment(
    connection: AnyConnection, attempt: Attempt, chunks: list[StoredChunk], *, object_key: str, stored_bytes: int
) -> None:
    """Inserts the segment and deletes its chunks. Raises `AlreadyMoved`."""
    first, last = chunks[0].seq, chunks[-1].seq
    async with connection.transaction():
        try:
            await connection.execute(
                sql("long_logs/insert_segment"),
                *attempt,
                first,
                last,
                sum(len(chunk.data) for chunk in chunks),
                stored_bytes,
                from_us(max(chunk.at_us for chunk in chunks)),
                object_key,
            )
        except asyncpg.UniqueViolationError:
            raise AlreadyMoved from None
        # Also chunks that were sent again after an earlier segment took them.
        gone = await connection.fetch(sql("long_logs/drop_moved_chunks"), *attempt, last)
        if sum(row["seq"] >= first for row in gone) != len(chunks):
            raise AlreadyMoved
        await take_up(connection, object_key)


async def forget_segments(connection: AnyConnection, days: int | None, *, after: int) -> int:
    """Deletes some segments of removed or old tasks. Returns where the next round begins; 0: at the beginning."""
    row = await connection.fetchrow(sql("long_logs/forget_segments"), after, _SEGMENTS_A_ROUND, days)
    assert row is not None
    return row["last"] if row["seen"] == _SEGMENTS_A_ROUND else 0
