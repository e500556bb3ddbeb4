"""The output of tasks, arrays and graphs, stored or followed. `log_streams.py` reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams
from starlette.responses import StreamingResponse

from rota.api import log_streams
from rota.api.described import PAGE, PLAIN_TEXT, TRUTH, WHEN, Media, Parameter, described, one_of, read_query, whole
from rota.api.log_streams import TaskLog, Unreadable
from rota.api.members import read_members
from rota.api.own_graph import check_tasks
from rota.api.requests import Cursors, existing, limit_of, task_id, truth_of, when_of, whole_number
from rota.api.services import Services, authorise
from rota.model.answers.fields import only
from rota.model.answers.tasks import LogLine
from rota.model.errors import Fault, Problem, invalid
from rota.model.output import STREAMS, MarkedText
from rota.model.task import State
from rota.model.tenant import Caller
from rota.observe.graph_view import counted, whole_status
from rota.store import graphs, reading
from rota.store.graphs import GraphMember
from rota.store.log_reading import Beginning, LogQuery

router = APIRouter(prefix="/v1/tasks", tags=["logs"])

NUMBERS = {name: number for number, name in STREAMS.items()}
MOST_TAIL = 1_000_000
NEXT_PAGE = "rota-next"  # the header of a page of logs that names the cursor of the next one
_JSON_LINES = "application/x-ndjson"
_TEXT = "text/plain; charset=utf-8"
_MEMBERS_A_READ = 1_000


@router.get("/{task}/log")
@described(
    (PLAIN_TEXT, Media(_JSON_LINES, of=LogLine)),
    query=(
        Parameter("attempt", whole(0, 32_767), "The number of an attempt; the latest by default."),
        Parameter("stream", one_of(*NUMBERS), "Only this stream."),
        Parameter("since", WHEN, "Only output since then: a duration before now, or a time with its offset."),
        Parameter("tail", whole(0, MOST_TAIL), "Only the last lines of each task, so many."),
        Parameter(
            "after", whole(0, 2**31 - 1), "Only chunks after this number, to resume; not of an array or a graph."
        ),
        Parameter("lines", TRUTH, "JSON lines instead of text."),
        Parameter("follow", TRUTH, "Stream JSON lines until the task has ended; an empty line is a sign of life."),
        Parameter("progress", TRUTH, "With `follow`: also the progress of the task."),
        *PAGE,
    ),
)
async def get_log(request: Request, task: str) -> Response:
    """The stored output of an attempt as text; with `follow=true` the live output as JSON lines, attempt by attempt.

    Of long output the beginning and the end are kept; a line says how much is left out between. The id of an array or a
    graph gives the output of its tasks, `limit` at a time unless it is followed, each below a heading or in lines that
    name it; the header `rota-next`, and `next` in the last line, have the cursor of the next page.
    """
    services, caller = await authorise(request)
    query = read_query(request)
    number = task_id(task)
    await check_tasks(services, caller, [number])
    name = query.get("stream")
    if name is not None and name not in NUMBERS:
        raise invalid(
            [
                Fault(
                    "/stream",
                    "invalid-filter",
                    f"stream is stdout or stderr, not {name[:40]!r}; leave it out for both",
                )
            ]
        )
    asked = whole_number(query, "attempt", default=0, least=0, most=32_767)
    wanted = LogQuery(number, asked, NUMBERS[name] if name else None, when_of(query, "since"))
    after = whole_number(query, "after", default=-1, least=0, most=2**31 - 1)
    how = _How.of(query, services.cursors, tail_wanted=after < 0)
    async with services.database.tenant(caller.tenant_id) as connection:
        latest = await reading.latest_attempt(connection, number, caller.tenant_id)
        if latest is None:
            existing(await graphs.read_graph(connection, number, caller.tenant_id))
    if latest is None:
        if after >= 0:
            raise invalid(
                [Fault("/after", "invalid-filter", "an array or a graph has no chunks of its own; use cursor")]
            )
        return await _graph_log(services, caller, wanted, how)
    log = TaskLog(services, caller, replace(wanted, attempt=asked or max(latest, 1)), Beginning(after))
    await log.begin(how.tail)
    if how.follow:
        followed = log_streams.follow(log, with_progress=how.with_progress)
        followed = services.open_connections.while_valid(caller, followed)
        return StreamingResponse(followed, media_type=_JSON_LINES)
    # The first page is read before the answer begins, so that a problem still has its own status.
    first = await log.first_page()
    if how.lines:
        return StreamingResponse(log_streams.lines(log, first), media_type=_JSON_LINES)
    return StreamingResponse(log_streams.text(log, first, MarkedText()), media_type=_TEXT)


@dataclass(frozen=True, slots=True)
class _How:
    """How to give the output; of an array or a graph, which page."""

    follow: bool
    lines: bool
    with_progress: bool
    tail: int | None
    limit: int
    after_member: int

    @classmethod
    def of(cls, query: QueryParams, cursors: Cursors, *, tail_wanted: bool) -> _How:
        """`tail_wanted`: not of a client that resumes after a chunk."""
        tail = whole_number(query, "tail", default=-1, least=0, most=MOST_TAIL)
        return cls(
            follow=truth_of(query, "follow"),
            lines=truth_of(query, "lines"),
            with_progress=truth_of(query, "progress"),
            tail=tail if tail >= 0 and tail_wanted else None,
            limit=limit_of(query),
            after_member=cursors.read(query.get("cursor"), 0),
        )


async def _graph_log(services: Services, caller: Caller, wanted: LogQuery, how: _How) -> Response:
    def log_of(member: GraphMember) -> TaskLog:
        attempt = wanted.attempt or max(member.attempt, 1)
        return TaskLog(services, caller, replace(wanted, task=member.id, attempt=attempt), member=member)

    if how.follow:
        followed = _follow_graph(services, caller, wanted.task, log_of, how)
        followed = services.open_connections.while_valid(caller, followed)
        return StreamingResponse(followed, media_type=_JSON_LINES)
    page = await read_members(services, caller, wanted.task, after=how.after_member, limit=how.limit)
    logs = [log_of(member) for member in page.members]
    headers = {} if page.next is None else {NEXT_PAGE: page.next}
    if how.lines:
        lines = log_streams.all_lines(logs, tail=how.tail, next=page.next)
        return StreamingResponse(lines, media_type=_JSON_LINES, headers=headers)
    return StreamingResponse(log_streams.all_text(logs, tail=how.tail), media_type=_TEXT, headers=headers)


async def _follow_graph(
    services: Services, caller: Caller, graph: int, log_of: Callable[[GraphMember], TaskLog], how: _How
) -> AsyncIterator[bytes]:
    """Follows all members, and those that joined meanwhile. A problem ends the stream: clients resume."""
    known: set[int] = set()
    try:
        while members := await _new_members(services, caller, graph, known):
            known.update(member.id for member in members)
            logs = [log_of(member) for member in members]
            async for line in log_streams.follow_all(logs, tail=how.tail, with_progress=how.with_progress):
                yield line
        async with services.database.tenant(caller.tenant_id) as connection:
            rows = await graphs.read_members(connection, graph, caller.tenant_id)
    except (Problem, Unreadable):
        return
    status = whole_status(counted(State(row["state"]) for row in rows))
    yield msgspec.json.encode(only(LogLine, end=True, graph=graph, state=status.value)) + b"\n"


async def _new_members(services: Services, caller: Caller, graph: int, known: set[int]) -> list[GraphMember]:
    found: list[GraphMember] = []
    async with services.database.tenant(caller.tenant_id) as connection:
        while True:
            after = found[-1].id if found else 0
            page = await graphs.members_page(connection, graph, caller.tenant_id, after=after, limit=_MEMBERS_A_READ)
            found += page
            if len(page) < _MEMBERS_A_READ:
                return [member for member in found if member.id not in known]
