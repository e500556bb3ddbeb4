"""Moving long output into the object store: the rows of it. The object comes before its row and the chunks go with the
row's own transaction, so that output is always in exactly one place, whoever dies when (see `store.artifacts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from rota.model.clock import from_us, to_us
from rota.store.artifacts import take_up
from rota.store.database import AnyConnection
from rota.store.log_segments import SEGMENT_BYTES, SEGMENT_CHUNKS, StoredChunk
from rota.store.logs import Attempt
from rota.store.statements import sql

FORGOTTEN_HOURS = 24  # output with a gap that nobody fills for so long stays where it is
_SEGMENTS_A_ROUND = 500


class AlreadyMoved(Exception):
    """Others moved or removed these chunks meanwhile; the object is not needed."""


@dataclass(frozen=True, slots=True)
class LongLog:
    """What is known about an attempt's output before some of it is moved."""

    tenant: int
    running: bool
    last_seq: int  # of what was moved; -1: nothing was
    moved_bytes: int
    waiting_bytes: int


async def claim_long(connection: AnyConnection, *, at_most: int, for_seconds: float) -> list[Attempt]:
    """Attempts to look at now, by whoever claimed them; others leave them alone for a while."""
    rows = await connection.fetch(sql("long_logs/claim_long"), at_most, for_seconds)
    return [(row["task"], row["attempt"]) for row in rows]


async def look_later(connection: AnyConnection, attempt: Attempt, *, seconds: float) -> None:
    await connection.execute(sql("long_logs/look_later"), *attempt, seconds)


async def forget_long(connection: AnyConnection, attempt: Attempt, *, older_than_hours: int = 0) -> None:
    await connection.execute(sql("long_logs/forget_long"), *attempt, older_than_hours)


async def read_long(connection: AnyConnection, attempt: Attempt) -> LongLog | None:
    row = await connection.fetchrow(sql("long_logs/long_log_facts"), *attempt)
    return None if row is None else LongLog(**row)


async def next_chunks(connection: AnyConnection, attempt: Attempt, *, after: int) -> list[StoredChunk]:
    """Enough for one segment, without a gap: what lies behind one waits until it is filled."""
    rows = await connection.fetch(sql("long_logs/chunks_to_move"), *attempt, after, SEGMENT_BYTES, SEGMENT_CHUNKS)
    return [
        StoredChunk(row["seq"], row["stream"], to_us(row["at"]), row["data"])
        for place, row in enumerate(rows, after + 1)
        if row["seq"] == place
    ]


async def keep_segment(
    connection: AnyConnection, attempt: Attempt, chunks: list[StoredChunk], *, object_key: str, stored_bytes: int
) -> None:
    """Notes the segment in place of its chunks. Raises `AlreadyMoved`."""
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
        # Also what was sent again after an earlier segment had taken it.
        gone = await connection.fetch(sql("long_logs/drop_moved_chunks"), *attempt, last)
        if sum(row["seq"] >= first for row in gone) != len(chunks):
            raise AlreadyMoved
        await take_up(connection, object_key)


async def forget_segments(connection: AnyConnection, days: int | None, *, after: int) -> int:
    """Some of those whose task is gone or whose time is over. Where the next look begins; 0: from the beginning."""
    row = await connection.fetchrow(sql("long_logs/forget_segments"), after, _SEGMENTS_A_ROUND, days)
    assert row is not None
    return row["last"] if row["seen"] == _SEGMENTS_A_ROUND else 0
