"""The output of tasks, stored or followed."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from rota.api.answers import progress_of
from rota.api.described import PLAIN_TEXT, TRUTH, WHEN, Media, Parameter, described, one_of, read_query, whole
from rota.api.requests import existing, task_id, truth_of, when_of, whole_number
from rota.api.services import Services, authorise
from rota.model.answers.fields import only
from rota.model.answers.tasks import LogLine
from rota.model.errors import Fault, Problem, invalid
from rota.model.task import State
from rota.model.tenant import Caller, Scope
from rota.store import reading
from rota.store.log_reading import Beginning, LogPage, LogQuery, fetch, find_chunks, find_tail

router = APIRouter(prefix="/v1/tasks", tags=["logs"])

STREAMS = {"stdout": 1, "stderr": 2}
NAMES = {number: name for name, number in STREAMS.items()}
LOOK_SECONDS = 0.2
QUIET_LOOKS = 10  # after so many looks without output, an empty line: a sign of life
CHUNKS_A_READ = 200
MOST_TAIL = 1_000_000


@router.get("/{task}/log")
@described(
    (PLAIN_TEXT, Media("application/x-ndjson", of=LogLine)),
    query=(
        Parameter("attempt", whole(0, 32_767), "The number of an attempt; the latest by default."),
        Parameter("stream", one_of(*STREAMS), "Only this stream."),
        Parameter("since", WHEN, "Only output since then: a duration before now, or a time with its offset."),
        Parameter("tail", whole(0, MOST_TAIL), "Only the last lines, so many."),
        Parameter("after", whole(0, 2**31 - 1), "Only chunks after this number, to resume."),
        Parameter("follow", TRUTH, "Stream JSON lines until the task has ended; an empty line is a sign of life."),
        Parameter("progress", TRUTH, "With `follow`: also the progress of the task."),
    ),
)
async def get_log(request: Request, task: str) -> Response:
    """The stored output of an attempt as text; with `follow=true` the live output as JSON lines, attempt by attempt."""
    services, caller = await authorise(request, Scope.READ)
    query = read_query(request)
    number = task_id(task)
    name = query.get("stream")
    if name is not None and name not in STREAMS:
        raise invalid([Fault("/stream", "invalid-filter", f"{name[:40]!r} is neither stdout nor stderr")])
    follow = truth_of(query, "follow")
    with_progress = truth_of(query, "progress")
    asked = whole_number(query, "attempt", default=0, least=0, most=32_767)
    after = whole_number(query, "after", default=-1, least=0, most=2**31 - 1)
    tail = whole_number(query, "tail", default=-1, least=0, most=MOST_TAIL)
    since = when_of(query, "since")
    latest = await _latest(services, caller, number)
    wanted = LogQuery(number, asked or max(latest, 1), STREAMS[name] if name else None, since)
    beginning = Beginning(after)
    if tail >= 0 and after < 0:
        beginning = await find_tail(services.database, services.segments, caller.tenant_id, wanted, tail)
    if follow:
        lines = _follow(services, caller, wanted, beginning, with_progress=with_progress)
        return StreamingResponse(lines, media_type="application/x-ndjson")
    # The first page is read before the answer begins, so that a problem still has its own status.
    first = await _page(services, caller, wanted, beginning.after)
    chunks = _stored(services, caller, wanted, first, beginning.skip_bytes)
    return StreamingResponse(chunks, media_type="text/plain; charset=utf-8")


async def _latest(services: Services, caller: Caller, number: int) -> int:
    async with services.database.tenant(caller.tenant_id) as connection:
        return existing(await reading.latest_attempt(connection, number, caller.tenant_id))


async def _page(services: Services, caller: Caller, wanted: LogQuery, after: int) -> LogPage:
    async with services.database.tenant(caller.tenant_id) as connection:
        found = await find_chunks(connection, wanted, after=after, limit=CHUNKS_A_READ)
    return await fetch(services.segments, wanted, found, after=after)


async def _stored(
    services: Services, caller: Caller, wanted: LogQuery, page: LogPage, skip: int
) -> AsyncIterator[bytes]:
    while True:
        for chunk in page.chunks:
            yield chunk.data[skip:]
            skip = 0
        if page.is_last:
            return
        page = await _page(services, caller, wanted, page.after)


async def _follow(
    services: Services, caller: Caller, wanted: LogQuery, beginning: Beginning, *, with_progress: bool
) -> AsyncIterator[bytes]:
    """Chunks as they are stored, attempt by attempt, then the end. A problem ends the stream: clients resume."""
    number, attempt = wanted.task, wanted.attempt
    after, skip = beginning.after, beginning.skip_bytes
    said_at = None
    quiet = 0
    with services.waiting.waiter([number]) as waiter:
        while True:
            try:
                async with services.database.tenant(caller.tenant_id) as connection:
                    row = await reading.read_task(connection, number, caller.tenant_id)
                    current = replace(wanted, attempt=attempt)
                    found = await find_chunks(connection, current, after=after, limit=CHUNKS_A_READ)
                page = await fetch(services.segments, current, found, after=after)
            except Problem:
                return
            if row is None:
                return
            for chunk in page.chunks:
                data = base64.b64encode(chunk.data[skip:]).decode()
                yield _line(attempt=attempt, seq=chunk.seq, stream=NAMES[chunk.stream], data_base64=data)
                skip = 0
            after = page.after
            if not page.is_last:
                continue
            if with_progress and row["progress_at"] != said_at:
                said_at = row["progress_at"]
                yield _line(attempt=attempt, progress=progress_of(row))
            latest = row["live_attempt"] if row["live_state"] is not None else (row["last_number"] or 0)
            if latest > attempt:
                attempt, after, skip = attempt + 1, -1, 0
            elif row["live_state"] is None and row["final_state"] is not None:
                if not page.chunks:  # read again after the end was seen, so no chunk is missing
                    yield _end(row)
                    return
            else:
                quiet = 0 if page.chunks else quiet + 1
                if quiet == QUIET_LOOKS:
                    quiet = 0
                    yield b"\n"
                await waiter.until_all_ended(LOOK_SECONDS)


def _end(row: asyncpg.Record) -> bytes:
    return _line(
        end=True,
        state=State(row["final_state"]).label,
        exit_code=row["exit_code"],
        reason=row["reason"],
        kept_bytes=row["log_bytes"] or 0,
        dropped_bytes=row["log_dropped_bytes"] or 0,
    )


def _line(**fields: object) -> bytes:
    return msgspec.json.encode(only(LogLine, **fields)) + b"\n"
