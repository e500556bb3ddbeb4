"""Stored output: read in order and from its end, the same whether it is in rows, in objects or in both."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.admit.artifacts import Artifacts
from rota.model.attempt import TAIL_SEQ, LogChunk, Outcome, Replaced
from rota.model.catalogue import Retention
from rota.model.errors import Problem
from rota.server.housekeeping import retain, retain_segments
from rota.server.long_logs import LogKeeper
from rota.settle.settlement import settle
from rota.store.log_reading import Beginning, LogQuery, fetch, find_chunks, find_tail
from rota.store.log_segments import SEGMENT_BYTES, Segments
from rota.store.logs import LogCounter, store_chunks
from rota.store.long_logs import forget_segments
from rota.store.objects import ObjectStore, open_objects
from rota.store.retention import save_retention
from tests.harness.postgres import TestPostgres
from tests.harness.s3 import moto_server
from tests.store.rows import Rows, add_tenant

LONG_BYTES = 1000
MIB = 1024 * 1024
PIECES = [b"one\ntw", b"o\nthree\n", b"", b"fo", b"ur\nfive\nsi", b"x"]


class Stored:
    """Output of one task's attempts, and a keeper that moves it."""

    def __init__(self, rows: Rows, objects: ObjectStore | None, task: int) -> None:
        self.rows = rows
        self.objects = objects
        self.task = task
        self.limit = 2
        self.keeper = LogKeeper(rows.database, Segments(objects), prefix="c", long_bytes=LONG_BYTES)

    async def add(self, *pieces: bytes, first: int = 0, stream: int = 1, attempt: int = 1) -> None:
        chunks = [LogChunk(self.task, attempt, seq, stream, data) for seq, data in enumerate(pieces, first)]
        await LogCounter(LONG_BYTES).store(self.rows.connection, chunks)

    async def move(self) -> None:
        await self.rows.connection.execute("update long_logs set look_at = now() where task = $1", self.task)
        async with asyncio.timeout(20):
            while await self.keeper.move_some():
                pass

    async def read(
        self, *, after: int = -1, stream: int | None = None, since: datetime | None = None, tenant: int | None = None
    ) -> bytes:
        query = LogQuery(self.task, 1, stream, since)
        segments = Segments(self.objects)
        text = b""
        while True:
            async with self.rows.database.tenant(tenant or self.rows.tenant) as connection:
                found = await find_chunks(connection, query, after=after, limit=self.limit)
            page = await fetch(segments, query, found, after=after)
            text += b"".join(chunk.data for chunk in page.chunks)
            if page.is_last:
                return text
            assert page.after > after
            after = page.after

    async def tail(self, lines: int, *, stream: int | None = None) -> Beginning:
        query = LogQuery(self.task, 1, stream)
        return await find_tail(self.rows.database, Segments(self.objects), self.rows.tenant, query, lines)

    async def places(self) -> tuple[list[tuple[int, int]], list[int]]:
        """What is in objects, what in rows."""
        segments = await self.rows.connection.fetch(
            "select first_seq, last_seq from log_segments where task = $1 order by 1", self.task
        )
        chunks = await self.rows.connection.fetch("select seq from log_chunks where task = $1 order by 1", self.task)
        return [tuple(row) for row in segments], [row["seq"] for row in chunks]

    async def loose(self) -> int:
        return await self.rows.connection.fetchval(
            "select count(*) from loose_objects where object_key like '%/logs/%'"
        )


@pytest.fixture(scope="module")
def own(postgres: TestPostgres) -> str:
    return postgres.create()


@pytest.fixture
async def rows(own: str) -> AsyncIterator[Rows]:
    opened = await Rows.open(own)
    yield opened
    await opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> ObjectStore:
    return open_objects(str(tmp_path / "objects"))


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with moto_server(tmp_path_factory.mktemp("moto")) as url:
        yield url


async def test_the_last_lines_begin_where_an_ordinary_tail_begins(rows: Rows, folder: ObjectStore) -> None:
    log = Stored(rows, folder, await rows.task())
    whole = b"".join(PIECES)
    lines = whole.splitlines(keepends=True)
    for place in ("rows", "objects and rows"):
        for seq, data in enumerate(PIECES) if place == "rows" else ():
            await log.add(data, first=seq, stream=1 + seq % 2)
        for count in range(9):
            start = await log.tail(count)
            text = (await log.read(after=start.after))[start.skip_bytes :]
            assert text == b"".join(lines[-count:] if count else []), (place, count)
        if place == "rows":  # the next round looks at the same behind a long beginning that has moved
            await rows.connection.execute("update log_chunks set seq = seq + 1000 where task = $1", log.task)
            await log.add(*[b"line\n" * 10] * 1000)
            await log.move()
            log.limit = 500
            whole = b"line\n" * 10_000 + whole
            lines = whole.splitlines(keepends=True)
    assert await Stored(rows, folder, await rows.task()).tail(3) == Beginning()


@pytest.mark.parametrize("where", ["folder", "s3"])
async def test_long_output_moves_when_its_attempt_has_ended_and_nobody_notices(
    rows: Rows, tmp_path: Path, request: pytest.FixtureRequest, where: str
) -> None:
    if where == "folder":
        objects = open_objects(str(tmp_path / "objects"))
    else:
        options = {"endpoint": request.getfixturevalue("moto"), "allow_http": "true", "region": "us-east-1",
                   "access_key_id": "x" * 10, "secret_access_key": "y" * 10}  # fmt: skip
        objects = open_objects("s3://bucket/logs", options)
    log = Stored(rows, objects, await rows.task())
    log.limit = 500
    pieces = [bytes([65 + seq % 26]) * 997 + b"\n" for seq in range(9000)]  # more than two segments
    for first in range(0, 9000, 3000):
        await log.add(*pieces[first : first + 3000], first=first, stream=1 + first // 3000 % 2)
    whole = b"".join(pieces)
    before = [await log.read(), await log.read(stream=2), await log.read(after=5999), await log.tail(5000)]
    now = await rows.connection.fetchval("select now()")
    await log.move()
    segments, chunks = await log.places()
    assert (len(segments), segments[0][0], segments[-1][1], chunks) == (3, 0, 8999, [])
    assert [await log.read(), await log.read(stream=2), await log.read(after=5999), await log.tail(5000)] == before
    assert before[0] == whole
    assert before[3] == Beginning(3998, 998)
    assert await log.read(since=now - timedelta(hours=1)) == whole
    assert await log.read(since=now + timedelta(hours=1)) == b""
    assert await log.read(tenant=await add_tenant(rows.connection)) == b"", "others see nothing of it"
    assert (await log.loose(), await rows.connection.fetchval("select count(*) from long_logs")) == (0, 0)
    await log.add(b"late\n", first=9000)
    assert await log.read(after=8999) == b"late\n"


async def test_short_output_stays_in_the_database_and_so_does_all_without_an_object_store(rows: Rows) -> None:
    for objects, size in ((open_objects("memory://"), LONG_BYTES - 1), (None, LONG_BYTES * 9)):
        log = Stored(rows, objects, await rows.task())
        await log.add(b"x" * size)
        await log.move()
        assert await log.places() == ([], [0])
        assert await log.read() == b"x" * size
        assert await rows.connection.fetchval("select count(*) from long_logs") == 0


async def test_what_a_running_attempt_prints_moves_by_whole_segments(rows: Rows, folder: ObjectStore) -> None:
    fence = await rows.lead()
    log = Stored(rows, folder, await rows.running(fence))
    piece = b"y" * (SEGMENT_BYTES // 8)
    await log.add(*[piece] * 7)
    await log.move()
    assert await log.places() == ([], list(range(7)))
    await log.add(*[piece] * 3, first=7)
    await log.move()
    assert await log.places() == ([(0, 7)], [8, 9])
    await settle(rows.connection, fence, [rows.ended(log.task, Outcome.OK)])
    await log.move()
    assert await log.places() == ([(0, 7), (8, 9)], [])
    assert await log.read() == piece * 10


async def test_with_the_store_away_output_stays_readable_and_moves_when_it_is_back(rows: Rows, tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path / "objects"))
    log = Stored(rows, objects, await rows.task())
    await log.add(b"a" * 2000, b"b" * 2000)
    shutil.rmtree(tmp_path / "objects")
    (tmp_path / "objects").write_text("a file where the folder was")
    await log.move()
    assert await log.places() == ([], [0, 1])
    assert await log.read() == b"a" * 2000 + b"b" * 2000
    (tmp_path / "objects").unlink()
    (tmp_path / "objects").mkdir()
    await log.move()
    assert await log.places() == ([(0, 1)], [])
    (tmp_path / "objects").rename(tmp_path / "moved")
    (tmp_path / "objects").write_text("")
    with pytest.raises(Problem) as away:
        await log.read()
    assert away.value.status == 503
    log.objects = None
    with pytest.raises(Problem, match="--objects"):
        await log.read()


async def test_a_chunk_sent_again_after_it_moved_is_passed_over_and_a_gap_is_waited_for(
    rows: Rows, folder: ObjectStore
) -> None:
    log = Stored(rows, folder, await rows.task())
    await log.add(b"a" * 600, b"b" * 600)
    await log.move()
    await log.add(b"b" * 600, first=1)
    await log.add(b"d" * 1200, first=3)
    assert await log.read() == b"a" * 600 + b"b" * 600 + b"d" * 1200
    await log.move()
    assert await log.places() == ([(0, 1)], [1, 3])
    await log.add(b"c" * 1200, first=2)
    await log.move()
    assert await log.places() == ([(0, 1), (2, 3)], [])
    assert await log.read() == b"a" * 600 + b"b" * 600 + b"c" * 1200 + b"d" * 1200


async def test_output_becomes_long_over_connections_and_inside_a_late_result(rows: Rows, folder: ObjectStore) -> None:
    log = Stored(rows, folder, await rows.task())
    for seq in range(3):
        await log.add(b"x" * 400, first=seq)
    fence = await rows.lead()
    late = await rows.running(fence)
    inside = [LogChunk(late, 1, 0, 1, b"y" * 100_000)]
    await settle(rows.connection, fence, [rows.ended(late, Outcome.OK, log=inside)])
    noted = await rows.connection.fetch("select task from long_logs order by task")
    assert [row["task"] for row in noted] == [log.task, late]
    await log.move()
    assert await log.places() == ([(0, 2)], [])


async def test_output_whose_object_is_gone_or_damaged_says_so_in_its_place(rows: Rows, tmp_path: Path) -> None:
    log = Stored(rows, open_objects(str(tmp_path / "objects")), await rows.task())
    await log.add(b"x" * 3000)
    await log.move()
    await log.add(b"after\n", first=1)
    (path,) = (path for path in (tmp_path / "objects").rglob("*") if path.is_file())
    body = path.read_bytes()
    path.write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    assert b"3000 bytes of output are missing here" in await log.read()
    path.unlink()
    assert (await log.read()).endswith(b"are missing here: their object is gone or damaged]\nafter\n")


async def test_objects_go_with_their_logs_and_tasks(rows: Rows, tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path / "objects"))
    fence = await rows.lead()
    await rows.connection.execute("delete from loose_objects")
    logs = []
    for _ in range(3):
        log = Stored(rows, objects, await rows.running(fence))
        await log.add(b"x" * 3000)
        logs.append(log)
    old, older, running = logs
    await settle(rows.connection, fence, [rows.ended(one.task, Outcome.OK) for one in (old, older)])
    for one in logs:
        await one.move()
    await running.add(b"y" * SEGMENT_BYTES, first=1)
    await running.move()

    async def left() -> list[int]:
        await Artifacts(rows.database, objects, prefix="c", limit_bytes=1, kept_for=None).sweep()
        return [len((await one.places())[0]) for one in logs]

    age = "update attempts set ended_at = now() - make_interval(days => $2) where task = $1"
    await rows.connection.execute(age, old.task, 5)
    await rows.connection.execute(age, older.task, 20)
    assert await retain_segments(rows.database, 0) == 0
    assert await left() == [1, 1, 1], "for ever is for ever"
    await save_retention(
        rows.connection, Retention(tasks_days=None, logs_days=10, events_days=None, deliveries_days=None)
    )
    await retain_segments(rows.database, 0)
    assert await left() == [1, 0, 1]
    await save_retention(
        rows.connection, Retention(tasks_days=3, logs_days=None, events_days=None, deliveries_days=None)
    )
    await retain(rows.database, 0)
    await retain_segments(rows.database, 0)
    assert await left() == [0, 0, 1]
    assert sum(path.is_file() for path in (tmp_path / "objects").rglob("*")) == 1
    assert await old.loose() == 0
    await save_retention(
        rows.connection, Retention(tasks_days=None, logs_days=None, events_days=30, deliveries_days=30)
    )


async def test_retention_goes_on_where_it_was(rows: Rows, folder: ObjectStore) -> None:
    log = Stored(rows, folder, await rows.task())
    await rows.connection.execute(
        """insert into log_segments (task, attempt, first_seq, last_seq, size_bytes, stored_bytes, last_at, object_key)
            select $1, 2, n, n, 1, 1, now(), 'many ' || n from generate_series(1, 700) n""",
        log.task,
    )
    first = await forget_segments(rows.connection, 1, after=0)
    assert first > 0
    assert await forget_segments(rows.connection, 1, after=first) == 0


async def test_chunks_alone_are_stored_as_before(rows: Rows) -> None:
    task = await rows.task()
    await store_chunks(rows.connection, [LogChunk(task, 1, 0, 1, b"x"), LogChunk(task, 1, 0, 1, b"y")])
    assert await Stored(rows, None, task).read() == b"x"
    assert await Stored(rows, None, task).read(since=datetime.now(UTC) + timedelta(hours=1)) == b""


async def test_the_end_of_long_output_replaces_chunks_and_moves_when_it_is_complete(
    rows: Rows, folder: ObjectStore
) -> None:
    fence = await rows.lead()
    log = Stored(rows, folder, await rows.running(fence))
    counter = LogCounter(LONG_BYTES)
    head = LogChunk(log.task, 1, 0, 1, b"h" * 2000, 0)
    first = [LogChunk(log.task, 1, TAIL_SEQ + n, 1 + n % 2, b"%d" % n * 100, 2000 + n * 100) for n in range(6)]
    await counter.store(rows.connection, [head, *first])
    gone = (Replaced(1, TAIL_SEQ, TAIL_SEQ + 3), Replaced(2, TAIL_SEQ + 1, TAIL_SEQ + 2))
    last = LogChunk(log.task, 1, TAIL_SEQ + 6, 1, b"end", 9000, gone)
    await counter.store(rows.connection, [last])
    left = [0, *(TAIL_SEQ + n for n in (3, 4, 5, 6))]
    assert await log.places() == ([], left)
    await counter.store(rows.connection, [last])  # sent again
    await log.move()
    assert await log.places() == ([], left), "too little for a segment while it runs"
    kept = 2000 + 3 * 100 + 3
    await settle(rows.connection, fence, [rows.ended(log.task, Outcome.OK, log_bytes=kept, log_dropped_bytes=6697)])
    whole = await log.read()
    await log.move()
    assert await log.places() == ([(0, 0), (TAIL_SEQ + 3, TAIL_SEQ + 6)], [])
    assert await log.read() == whole == b"h" * 2000 + b"3" * 100 + b"4" * 100 + b"5" * 100 + b"end"
    assert (await log.tail(1)).after == -1
    query = LogQuery(log.task, 1)
    async with rows.database.tenant(rows.tenant) as connection:
        found = await find_chunks(connection, query, after=0, limit=10)
    page = await fetch(Segments(folder), query, found, after=0)
    assert [chunk.offset for chunk in page.chunks] == [2300, 2400, 2500, 9000]
    assert await rows.connection.fetchval("select count(*) from long_logs where task = $1", log.task) == 0


async def test_an_end_that_is_not_complete_stays_in_rows(rows: Rows, folder: ObjectStore) -> None:
    fence = await rows.lead()
    log = Stored(rows, folder, await rows.running(fence))
    chunks = [LogChunk(log.task, 1, 0, 1, b"h" * 2000, 0), LogChunk(log.task, 1, TAIL_SEQ + 9, 1, b"end", 9000)]
    await LogCounter(LONG_BYTES).store(rows.connection, chunks)
    await settle(rows.connection, fence, [rows.ended(log.task, Outcome.OK, log_bytes=2100)])
    await log.move()
    assert await log.places() == ([(0, 0)], [TAIL_SEQ + 9])
    await store_chunks(rows.connection, [LogChunk(log.task, 1, TAIL_SEQ + 8, 1, b"x" * 97, 8903)])
    await log.move()
    assert await log.places() == ([(0, 0), (TAIL_SEQ + 8, TAIL_SEQ + 9)], [])


async def test_an_attempt_that_writes_much_is_moved_at_once_and_stays_in_rows_without_a_store(
    rows: Rows, folder: ObjectStore
) -> None:
    fence = await rows.lead()
    for objects, left, segments in ((folder, 2 * MIB, 2), (None, 10 * MIB, 0)):
        log = Stored(rows, objects, await rows.running(fence))
        counter = LogCounter(LONG_BYTES)
        crowded = [
            await counter.store(rows.connection, [LogChunk(log.task, 1, seq, 1, b"x" * MIB, seq * MIB)])
            for seq in range(10)
        ]
        assert [seq for seq, some in enumerate(crowded) if some] == [7]
        assert crowded[7] == {(log.task, 1)}
        assert await log.keeper.move_now((log.task, 1)) == left
        assert len((await log.places())[0]) == segments
