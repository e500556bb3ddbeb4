"""Where the last lines of stored output begin."""

from __future__ import annotations

from rota.model.attempt import LogChunk
from rota.store.log_reading import Beginning, LogQuery, find_tail, read_chunks
from rota.store.logs import store_chunks
from tests.store.rows import Rows


async def test_the_last_lines_begin_where_an_ordinary_tail_begins(rows: Rows) -> None:
    pieces = [b"one\ntw", b"o\nthree\n", b"", b"fo", b"ur\nfive\nsi", b"x"]
    task = await rows.task()
    await store_chunks(rows.connection, [LogChunk(task, 1, seq, 1 + seq % 2, data) for seq, data in enumerate(pieces)])
    lines = b"".join(pieces).splitlines(keepends=True)
    for count in range(9):
        start = await find_tail(rows.connection, LogQuery(task, 1), count)
        found = await read_chunks(rows.connection, LogQuery(task, 1), after=start.after, limit=100)
        text = b"".join(row["data"] for row in found)[start.skip_bytes :]
        assert text == b"".join(lines[-count:] if count else []), count
    assert await find_tail(rows.connection, LogQuery(task, 2), 3) == Beginning()
    await store_chunks(rows.connection, [LogChunk(task, 3, seq, 1, b"line\n" * 10) for seq in range(120)])
    assert await find_tail(rows.connection, LogQuery(task, 3), 15) == Beginning(117, 25)
