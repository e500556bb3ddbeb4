"""Logs: what a task printed, stored or as it comes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams
from starlette.responses import StreamingResponse

from rota.api.documents import progress_document
from rota.api.requests import check_query, task_id, whole_number
from rota.api.services import Services, authorise
from rota.model.errors import Fault, Problem, invalid, not_found
from rota.model.task import State
from rota.model.tenant import Caller, Scope
from rota.store import reading

router = APIRouter(prefix="/v1/tasks", tags=["logs"])

STREAMS = {"stdout": 1, "stderr": 2}
NAMES = {number: name for name, number in STREAMS.items()}
LOOK_SECONDS = 0.2
CHUNKS_A_READ = 200


@router.get("/{task}/log")
async def read_log(request: Request, task: str) -> Response:
    """The stored output of the latest attempt (or `attempt=N`), as bytes; with `follow=true`, live, as JSON lines."""
    services, caller = await authorise(request, Scope.READ)
    query = request.query_params
    check_query(query, {"attempt", "stream", "follow", "after", "progress"})
    number = task_id(task)
    name = query.get("stream")
    if name is not None and name not in STREAMS:
        raise invalid([Fault("/stream", "invalid-filter", f"{name[:40]!r} is neither stdout nor stderr")])
    follow = _truth(query, "follow")
    with_progress = _truth(query, "progress")
    asked = whole_number(query, "attempt", default=0, least=0, most=32_767)
    after = whole_number(query, "after", default=-1, least=0, most=2**31 - 1)
    latest = await _latest(services, caller, number)
    stream = STREAMS[name] if name else None
    if follow:
        lines = _follow(
            services, caller, number, attempt=asked or max(latest, 1), after=after, stream=stream,
            with_progress=with_progress,
        )  # fmt: skip
        return StreamingResponse(lines, media_type="application/x-ndjson")
    chunks = _stored(services, caller, number, asked or latest, after, stream)
    return StreamingResponse(chunks, media_type="text/plain; charset=utf-8")


def _truth(query: QueryParams, name: str) -> bool:
    text = query.get(name, "false")
    if text not in ("true", "false"):
        raise invalid([Fault(f"/{name}", "invalid-filter", f"{text[:40]!r} is neither true nor false")])
    return text == "true"


async def _latest(services: Services, caller: Caller, number: int) -> int:
    async with services.database.tenant(caller.tenant_id) as connection:
        latest = await reading.latest_attempt(connection, number, caller.tenant_id)
    if latest is None:
        raise not_found()
    return latest


async def _stored(
    services: Services, caller: Caller, number: int, attempt: int, after: int, stream: int | None
) -> AsyncIterator[bytes]:
    while True:
        async with services.database.tenant(caller.tenant_id) as connection:
            rows = await reading.read_log(connection, number, attempt, after=after, stream=stream, limit=CHUNKS_A_READ)
        for row in rows:
            yield row["data"]
        if len(rows) < CHUNKS_A_READ:
            return
        after = rows[-1]["seq"]


async def _follow(
    services: Services, caller: Caller, number: int, *, attempt: int, after: int, stream: int | None,
    with_progress: bool,
) -> AsyncIterator[bytes]:  # fmt: skip
    """Chunks as they are stored, attempt after attempt, then how it ended. Trouble ends the stream: clients resume."""
    said_at = None
    with services.waiting.waiter([number]) as waiter:
        while True:
            try:
                async with services.database.tenant(caller.tenant_id) as connection:
                    row = await reading.read_task(connection, number, caller.tenant_id)
                    chunks = await reading.read_log(
                        connection, number, attempt, after=after, stream=stream, limit=CHUNKS_A_READ
                    )
            except Problem:
                return
            if row is None:
                return
            for chunk in chunks:
                after = chunk["seq"]
                yield _line(
                    {"attempt": attempt, "seq": after, "stream": NAMES[chunk["stream"]],
                     "data_base64": base64.b64encode(chunk["data"]).decode()}
                )  # fmt: skip
            if len(chunks) == CHUNKS_A_READ:
                continue
            if with_progress and row["progress_at"] != said_at:
                said_at = row["progress_at"]
                yield _line({"attempt": attempt, "progress": progress_document(row)})
            latest = row["live_attempt"] if row["live_state"] is not None else (row["last_number"] or 0)
            if latest > attempt:
                attempt, after = attempt + 1, -1
            elif row["live_state"] is None and row["final_state"] is not None:
                if not chunks:  # read once more after the end was seen: nothing is missing
                    yield _line(_end(row))
                    return
            else:
                await waiter.until_all_ended(LOOK_SECONDS)


def _end(row: asyncpg.Record) -> dict[str, object]:
    return {
        "end": True,
        "state": State(row["final_state"]).label,
        "exit_code": row["exit_code"],
        "reason": row["reason"],
        "dropped_bytes": row["log_dropped_bytes"] or 0,
    }


def _line(document: dict[str, object]) -> bytes:
    return msgspec.json.encode(document) + b"\n"
