"""Reads stored output, from rows or from the object store.

Chunks are numbered without gaps per attempt; a reader continues after the last number it saw. The latest chunks are
rows, the older ones of long output are in the object store. `find_chunks` asks the database and `fetch` reads their
object, so that no connection is held while the object store answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import asyncpg

from rota.store.database import AnyConnection, Database
from rota.store.log_segments import Segment, Segments, StoredChunk, offset_of, since_us
from rota.store.statements import sql

MOST_TAIL_BYTES = 64 * 1024 * 1024  # searched backwards for line ends; longer lines are cut
_CHUNKS_A_LOOK = 50


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Selects output. Row-level security confines it to the caller's tenant."""

    task: int
    attempt: int
    stream: int | None = None  # None: both
    since: datetime | None = None  # stored at or after


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where to begin reading: after this chunk, and `skip_bytes` into the next."""

    after: int = -1
    skip_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """Chunks from the database, or the segment that holds them."""

    chunks: list[StoredChunk]
    segment: Segment | None = None
    is_last: bool = False  # there were no later chunks


@dataclass(frozen=True, slots=True)
class LogPage:
    chunks: list[StoredChunk]
    after: int  # the next page begins after this chunk
    is_last: bool


async def find_chunks(connection: AnyConnection, query: LogQuery, *, after: int, limit: int) -> Found:
    """Finds the next chunks or their segment."""
    rows = await connection.fetch(
        sql("log_reading/read_log"), query.task, query.attempt, after, query.stream, query.since, limit
    )
    found = _found(rows)
    return Found(found.chunks, found.segment, is_last=found.segment is None and len(rows) < limit)


async def fetch(segments: Segments, query: LogQuery, found: Found, *, after: int) -> LogPage:
    """Reads the chunks, from the object store if they are in a segment."""
    if found.segment is None:
        return LogPage(found.chunks, found.chunks[-1].seq if found.chunks else after, found.is_last)
    chunks = [chunk for chunk in await segments.fetch(found.segment) if chunk.seq > after]
    return LogPage(_wanted(chunks, query), found.segment.last_seq, is_last=False)


async def find_tail(database: Database, segments: Segments, tenant: int, query: LogQuery, lines: int) -> Beginning:
    """Where the last `lines` lines begin."""
    before: int | None = None
    left = lines + 1  # line ends to find: up to the one before the first line
    looked = 0
    is_last = True
    while True:
        async with database.tenant(tenant) as connection:
            rows = await connection.fetch(
                sql("log_reading/read_log_backwards"),
                query.task,
                query.attempt,
                before,
                query.stream,
                query.since,
                _CHUNKS_A_LOOK,
            )
        found = _found(rows)
        chunks = found.chunks
        if found.segment is not None:
            inside = [c for c in await segments.fetch(found.segment) if before is None or c.seq < before]
            chunks = _wanted(inside, query)[::-1]
            before = found.segment.first_seq
        elif chunks:
            before = chunks[-1].seq
        else:
            return Beginning()
        for chunk in chunks:
            if is_last and not chunk.data.endswith(b"\n"):
                left -= 1  # the last line counts although it has no end yet
            is_last = False
            ends = chunk.data.count(b"\n")
            if ends >= left:
                place = len(chunk.data)
                for _ in range(left):
                    place = chunk.data.rfind(b"\n", 0, place)
                return Beginning(chunk.seq - 1, place + 1)
            left -= ends
            looked += len(chunk.data)
            if looked >= MOST_TAIL_BYTES:
                return Beginning(chunk.seq - 1)


def _found(rows: list[asyncpg.Record]) -> Found:
    if rows and rows[0]["object_key"] is not None:
        row = rows[0]
        segment = Segment(row["first_seq"], row["last_seq"], row["object_key"], row["stored_bytes"], row["size_bytes"])
        return Found([], segment)
    return Found(
        [StoredChunk(row["seq"], row["stream"], 0, row["data"], offset_of(row["byte_offset"])) for row in rows]
    )


def _wanted(chunks: list[StoredChunk], query: LogQuery) -> list[StoredChunk]:
    since = since_us(query.since)
    return [c for c in chunks if c.at_us >= since and (query.stream is None or c.stream == query.stream)]
