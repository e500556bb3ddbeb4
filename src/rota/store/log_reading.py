"""Reading stored output: the one way to it, wherever it is kept.

Chunks are numbered without gaps per attempt; readers go on from the last number they saw. A store that moves old output
elsewhere answers here, and nobody else has to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import asyncpg

from rota.store.database import AnyConnection

MOST_TAIL_BYTES = 64 * 1024 * 1024  # looked through backwards for line ends; lines longer than that are cut
_CHUNKS_A_LOOK = 50


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which output. Row-level security confines it to the caller's tenant."""

    task: int
    attempt: int
    stream: int | None = None  # None: both
    since: datetime | None = None  # stored at or after


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where to begin reading: after this chunk, and so many bytes into the next."""

    after: int = -1
    skip_bytes: int = 0


async def read_chunks(connection: AnyConnection, query: LogQuery, *, after: int, limit: int) -> list[asyncpg.Record]:
    """The next chunks (seq, stream, data), in order."""
    return list(
        await connection.fetch(
            """select seq, stream, data from log_chunks
                where task = $1 and attempt = $2 and seq > $3 and ($4::smallint is null or stream = $4)
                    and ($5::timestamptz is null or at >= $5)
                order by seq limit $6""",
            query.task, query.attempt, after, query.stream, query.since, limit,
        )
    )  # fmt: skip


async def find_tail(connection: AnyConnection, query: LogQuery, lines: int) -> Beginning:
    """Where the last so many lines begin."""
    before: int | None = None
    left = lines + 1  # line ends to find: the one before the first line wanted
    looked = 0
    is_last = True
    while True:
        rows = await connection.fetch(
            """select seq, data from log_chunks
                where task = $1 and attempt = $2 and ($3::integer is null or seq < $3)
                    and ($4::smallint is null or stream = $4) and ($5::timestamptz is null or at >= $5)
                order by seq desc limit $6""",
            query.task, query.attempt, before, query.stream, query.since, _CHUNKS_A_LOOK,
        )  # fmt: skip
        for row in rows:
            data: bytes = row["data"]
            if is_last and not data.endswith(b"\n"):
                left -= 1  # the last line has no end yet, and is a line all the same
            is_last = False
            ends = data.count(b"\n")
            if ends >= left:
                place = len(data)
                for _ in range(left):
                    place = data.rfind(b"\n", 0, place)
                return Beginning(row["seq"] - 1, place + 1)
            left -= ends
            looked += len(data)
            if looked >= MOST_TAIL_BYTES:
                return Beginning(row["seq"] - 1)
        if len(rows) < _CHUNKS_A_LOOK:
            return Beginning()
        before = rows[-1]["seq"]
