"""Streams of output: what is stored, as text or as JSON lines, and what comes, of one task or of all tasks of a graph.

A line of a graph's log names its task. Followers of a graph look at few of its tasks at once, and the less often the
more there are, so that one follower never asks more of the database than a few followers of single tasks.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace

import asyncpg
import msgspec

from rota.api.answers import progress_of
from rota.api.services import Services
from rota.model.answers.fields import LEFT_OUT, only
from rota.model.answers.tasks import LogLine
from rota.model.errors import Problem
from rota.model.output import STREAMS, Gaps, MarkedText, heading
from rota.model.task import State
from rota.model.tenant import Caller
from rota.store import graphs, reading
from rota.store.graphs import GraphMember
from rota.store.log_reading import Beginning, LogPage, LogQuery, fetch, find_chunks, find_tail
from rota.store.log_segments import StoredChunk

LOOK_SECONDS = 0.2
CHUNKS_A_READ = 200
_QUIET_SECONDS = 2.0
_FOLLOWED_AT_ONCE = 32  # tasks of a graph
_FULL_PACE = 4  # with more of them at once, each is looked at less often
_STATES_SECONDS = 1.0  # between two looks at the states of waiting tasks
_STATES_A_SECOND = 1_000


@dataclass(slots=True)
class TaskLog:
    """The output of one attempt of a task; `member` says which task of a graph it is."""

    services: Services
    caller: Caller
    wanted: LogQuery
    beginning: Beginning = Beginning()  # noqa: RUF009 - frozen
    member: GraphMember | None = None
    gaps: Gaps = field(default_factory=lambda: Gaps(from_start=False))

    async def begin(self, tail: int | None) -> TaskLog:
        """Finds where to begin: after a chunk that the caller has, or at the last `tail` lines."""
        if tail is not None:
            tenant, segments = self.caller.tenant_id, self.services.segments
            self.beginning = await find_tail(self.services.database, segments, tenant, self.wanted, tail)
        self.gaps = Gaps(from_start=self.beginning == Beginning() and self.wanted.since is None)
        return self

    async def first_page(self) -> LogPage:
        return await self.page(self.beginning.after)

    async def page(self, after: int) -> LogPage:
        async with self.services.database.tenant(self.caller.tenant_id) as connection:
            found = await find_chunks(connection, self.wanted, after=after, limit=CHUNKS_A_READ)
        return await fetch(self.services.segments, self.wanted, found, after=after)

    async def chunks(self, first: LogPage) -> AsyncIterator[StoredChunk]:
        page = first
        while True:
            for chunk in page.chunks:
                yield self.cut(chunk)
            if page.is_last:
                return
            page = await self.page(page.after)

    def cut(self, chunk: StoredChunk) -> StoredChunk:
        """The chunk, without what comes before the beginning."""
        skip = self.beginning.skip_bytes
        if not skip:
            return chunk
        self.beginning = replace(self.beginning, skip_bytes=0)
        offset = chunk.offset if chunk.offset < 0 else chunk.offset + skip
        return msgspec.structs.replace(chunk, data=chunk.data[skip:], offset=offset)

    def left_out(self, chunk: StoredChunk) -> int:
        return self.gaps.before(STREAMS[chunk.stream], offset=chunk.offset, size=len(chunk.data))

    def line(self, chunk: StoredChunk) -> bytes:
        return self.encode(
            attempt=self.wanted.attempt,
            seq=chunk.seq,
            stream=STREAMS[chunk.stream],
            data_base64=base64.b64encode(chunk.data).decode(),
            offset=LEFT_OUT if chunk.offset < 0 else chunk.offset,
            left_out_bytes=self.left_out(chunk) or LEFT_OUT,
        )

    def encode(self, **fields: object) -> bytes:
        if self.member is not None:
            fields |= {"task": self.member.id, "name": self.member.name}
            fields["index"] = LEFT_OUT if self.member.index is None else self.member.index
        return msgspec.json.encode(only(LogLine, **fields)) + b"\n"


async def text(log: TaskLog, first: LogPage, marked: MarkedText) -> AsyncIterator[bytes]:
    async for chunk in log.chunks(first):
        yield marked.add(STREAMS[chunk.stream], chunk.data, left_out_bytes=log.left_out(chunk))


async def lines(log: TaskLog, first: LogPage) -> AsyncIterator[bytes]:
    async for chunk in log.chunks(first):
        if chunk.data:
            yield log.line(chunk)


async def all_text(logs: Iterable[TaskLog], *, tail: int | None) -> AsyncIterator[bytes]:
    """The output of several tasks, each below a heading. A task without output has none."""
    for log in logs:
        marked = MarkedText()
        is_first = True
        async for part in text(log, await (await log.begin(tail)).first_page(), marked):
            if part and is_first:
                is_first = False
                yield _heading(log)
            yield part
        yield marked.end_line()


def _heading(log: TaskLog) -> bytes:
    assert log.member is not None, "only tasks of a graph have headings"
    return heading(log.member.id, log.member.name)


async def all_lines(logs: Iterable[TaskLog], *, tail: int | None, next: str | None) -> AsyncIterator[bytes]:
    for log in logs:
        async for line in lines(log, await (await log.begin(tail)).first_page()):
            yield line
    yield msgspec.json.encode(only(LogLine, next=next)) + b"\n"


# ---- following -----------------------------------------------------------------------------------------------------


class Unreadable(Exception):
    """A task's output can't be read now."""


class Follower:
    """Follows the output of one task from attempt to attempt."""

    def __init__(self, log: TaskLog, *, with_progress: bool) -> None:
        self._log = log
        self._after = log.beginning.after
        self._with_progress = with_progress
        self._said_at: object = None
        self.is_idle = False  # there was nothing more at the last look
        self.is_over = False  # all of it was given, or can't be read: clients resume
        self.has_ended = False  # all of it was given

    async def look(self) -> AsyncIterator[bytes]:
        """What has come since the last look, chunk by chunk; at last how the task ended."""
        log = self._log
        self.is_idle = False
        try:
            async with log.services.database.tenant(log.caller.tenant_id) as connection:
                row = await reading.read_task(connection, log.wanted.task, log.caller.tenant_id)
                found = await find_chunks(connection, log.wanted, after=self._after, limit=CHUNKS_A_READ)
            page = await fetch(log.services.segments, log.wanted, found, after=self._after)
        except Problem:
            row = None
        if row is None:
            self.is_over = True
            return
        for chunk in map(log.cut, page.chunks):
            if chunk.data:
                yield log.line(chunk)
        self._after = page.after
        if not page.is_last:
            return
        if self._with_progress and row["progress_at"] != self._said_at:
            self._said_at = row["progress_at"]
            yield log.encode(attempt=log.wanted.attempt, progress=progress_of(row))
        latest = row["live_attempt"] if row["live_state"] is not None else (row["last_number"] or 0)
        if latest > log.wanted.attempt:
            log.wanted = replace(log.wanted, attempt=log.wanted.attempt + 1)
            log.beginning, log.gaps, self._after = Beginning(), Gaps(from_start=log.wanted.since is None), -1
        elif row["live_state"] is None and row["final_state"] is not None:
            if not page.chunks:  # read again after the end was seen, so no chunk is missing
                yield self._end(row)
                self.is_over = self.has_ended = True
        else:
            self.is_idle = True

    def _end(self, row: asyncpg.Record) -> bytes:
        return self._log.encode(
            end=True,
            state=State(row["final_state"]).label,
            exit_code=row["exit_code"],
            reason=row["reason"],
            kept_bytes=row["log_bytes"] or 0,
            dropped_bytes=row["log_dropped_bytes"] or 0,
        )


class _SignsOfLife:
    """An empty line whenever a stream has been silent for a while, so that clients notice a dead connection."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._said_at = self._loop.time()

    @property
    def is_due(self) -> bool:
        return self._loop.time() - self._said_at >= _QUIET_SECONDS

    def said(self) -> bytes:
        self._said_at = self._loop.time()
        return b"\n"


async def follow(log: TaskLog, *, with_progress: bool) -> AsyncIterator[bytes]:
    """Chunks as they are stored, attempt by attempt, then the end. A problem ends the stream: clients resume."""
    follower = Follower(log, with_progress=with_progress)
    life = _SignsOfLife()
    with log.services.waiting.waiter([log.wanted.task]) as waiter:
        while not follower.is_over:
            async for line in follower.look():
                yield line
                life.said()
            if follower.is_idle:
                if log.services.waiting.is_closed:
                    return
                if life.is_due:
                    yield life.said()
                await waiter.until_over(LOOK_SECONDS)


async def follow_all(logs: Sequence[TaskLog], *, tail: int | None, with_progress: bool) -> AsyncIterator[bytes]:
    """The output of several tasks as it is stored, and how each of them ended. It stops early at a problem."""
    if not logs:
        return
    services, caller = logs[0].services, logs[0].caller
    waiting = {log.wanted.task: log for log in logs}
    followed: dict[int, Follower] = {}
    life = _SignsOfLife()
    while waiting or followed:
        async with services.database.tenant(caller.tenant_id) as connection:
            begun = await graphs.begun_tasks(connection, list(waiting))
        ready = deque(task for task in waiting if task in begun)
        looks = max(1, round(_STATES_SECONDS / LOOK_SECONDS * max(1.0, len(waiting) / _STATES_A_SECOND)))
        for _ in range(looks):
            while ready and len(followed) < _FOLLOWED_AT_ONCE:
                log = waiting.pop(ready.popleft())
                await log.begin(tail)
                followed[log.wanted.task] = Follower(log, with_progress=with_progress)
            for task, follower in list(followed.items()):
                async for line in follower.look():
                    yield line
                    life.said()
                if follower.is_over:
                    del followed[task]
                    if not follower.has_ended:
                        raise Unreadable
            if not waiting and not followed:
                return
            if life.is_due:
                yield life.said()
            if all(follower.is_idle for follower in followed.values()):
                if services.waiting.is_closed:
                    raise Unreadable
                await asyncio.sleep(LOOK_SECONDS * max(1.0, len(followed) / _FULL_PACE))
