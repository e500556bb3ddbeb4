"""The attempts and results of a task, or of each task of an array or a graph; and waiting for the ends of many tasks.

An answer is bounded in size whatever the results are: what does not fit is asked for again. Clients read the results of
a batch by waiting: they name the tasks that they wait for, and the neighbours that may have ended too.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, attempt_of, outcome_of
from rota.api.described import CURSOR, PAGE, Parameter, described, read_query, whole
from rota.api.members import MemberPage, read_members
from rota.api.own_graph import check_tasks
from rota.api.payload import attempt_for, end_for
from rota.api.requests import limit_of, read_json, task_id, whole_number
from rota.api.routes.tasks import MOST_IDS, MOST_WAIT_SECONDS, SMALL_BODY, checked_ids, documents_of
from rota.api.services import Services, authorise
from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.tasks import AttemptList, EndedTask, ResultPage, TaskDocument, TaskResult, WaitAnswer
from rota.model.errors import Fault, invalid, not_found
from rota.model.task import STATUS, State
from rota.model.tenant import Caller
from rota.store import cancel_and_rerun, graphs, reading

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

MOST_RESULTS = 100  # of a page: each may have 256 KiB
MOST_ANSWER_BYTES = 8 * 1024 * 1024  # of results, in one answer; at least the first portion is in it
MOST_DOCUMENTS = 100


class WaitRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`any`: answer as soon as one of `ids` has ended. `also`: tasks to report if they have ended already."""

    ids: list[int]
    timeout: float = 20.0
    any: bool = False
    also: list[int] = []
    documents: bool = False  # answer with the whole documents of the tasks that have ended
    graphs: bool = False  # also name the graphs that these tasks began because they may submit others


@dataclass(frozen=True, slots=True)
class _Ended:
    ids: frozenset[int]
    outcomes: list[EndedTask]
    documents: list[TaskDocument]
    more: bool


@router.get("/{task}/attempts")
@described(AttemptList, query=PAGE)
async def list_attempts(request: Request, task: str) -> Response:
    """The attempts of a task, oldest first; the last one may be running.

    Of an array or a graph, the attempts of `limit` of its tasks.
    """
    services, caller = await authorise(request)
    query = read_query(request)
    number, limit, after = task_id(task), limit_of(query), services.cursors.read(query.get("cursor"), 0)
    await check_tasks(services, caller, [number])
    page = await _page(services, caller, number, after=after, limit=limit)
    ids = [number] if page is None else [member.id for member in page.members]
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await reading.read_attempts(connection, ids, caller.tenant_id)
    attempts = [attempt_for(caller, attempt_of(row)) for row in rows]
    if page is None:
        return answer(AttemptList(attempts=attempts))
    places = {member.id: (place, member.name) for place, member in enumerate(page.members)}
    attempts.sort(key=lambda attempt: places[attempt.task][0])  # stable: oldest first stays
    named = [msgspec.structs.replace(attempt, name=places[attempt.task][1]) for attempt in attempts]
    return answer(AttemptList(attempts=named, next=page.next))


@router.get("/{task}/results")
@described(
    ResultPage,
    query=(Parameter("limit", whole(1, MOST_RESULTS), "The most results of a page; 50 by default."), CURSOR),
)
async def list_results(request: Request, task: str) -> Response:
    """The result of a task, or those of the tasks of an array or a graph; of a task that has not ended, its state."""
    services, caller = await authorise(request)
    query = read_query(request)
    limit = whole_number(query, "limit", default=50, least=1, most=MOST_RESULTS)
    number, after = task_id(task), services.cursors.read(query.get("cursor"), 0)
    await check_tasks(services, caller, [number])
    page = await _page(services, caller, number, after=after, limit=limit)
    ids = [number] if page is None else [member.id for member in page.members]
    async with services.database.tenant(caller.tenant_id) as connection:
        live = await cancel_and_rerun.live_states(connection, ids, caller.tenant_id)
        rows = await reading.read_outcomes(connection, ids, caller.tenant_id)
    found = {one: _waiting(one, state) for one, state in live.items()}
    for row in rows:  # read last: of a task that ended meanwhile, the end counts
        found[row["task"]] = TaskResult(**msgspec.structs.asdict(outcome_of(row)), name=LEFT_OUT, index=LEFT_OUT)
    if page is None:
        return answer(ResultPage(results=list(found.values())))
    results = [
        msgspec.structs.replace(
            found[member.id], name=member.name, index=LEFT_OUT if member.index is None else member.index
        )
        for member in page.members
        if member.id in found  # else retention has removed it
    ]
    return answer(ResultPage(results=results, next=page.next))


async def _page(services: Services, caller: Caller, number: int, *, after: int, limit: int) -> MemberPage | None:
    """The tasks of an array or a graph; None if the id is a task's. 404 if it is nobody's."""
    async with services.database.tenant(caller.tenant_id) as connection:
        if await reading.known_tasks(connection, [number], caller.tenant_id):
            return None
    return await read_members(services, caller, number, after=after, limit=limit)


def _waiting(task: int, state: State) -> TaskResult:
    return TaskResult(id=task, state=state.label, status=STATUS[state].value, name=LEFT_OUT, index=LEFT_OUT)


@router.post("/wait")
@described(WaitAnswer, body=WaitRequest)
async def wait_for_tasks(request: Request) -> Response:
    """Answers when all the tasks (or any of them) have ended, or when the time is up, with those that have ended."""
    services, caller = await authorise(request)
    body = await read_json(request, WaitRequest, limit=SMALL_BODY)
    ids = checked_ids(body.ids)
    given = len(body.ids) + len(body.also)
    if given > MOST_IDS:
        detail = f"`ids` and `also` may name {MOST_IDS} tasks together, not {given}"
        raise invalid([Fault("/also", "out-of-range", detail)])
    await check_tasks(services, caller, sorted({*ids, *body.also}))
    if not 0 <= body.timeout <= MOST_WAIT_SECONDS:
        detail = f"timeout is from 0 to {MOST_WAIT_SECONDS} seconds, not {body.timeout:g}"
        raise invalid([Fault("/timeout", "out-of-range", detail)])
    with services.waiting.waiter(ids, for_any=body.any) as waiter:
        ended = await _ended(services, caller, body, ids)
        here = ended.ids.intersection(ids)
        if len(here) < len(ids):
            async with services.database.tenant(caller.tenant_id) as connection:
                known = await reading.known_tasks(connection, ids, caller.tenant_id)
            if len(known) < len(ids):
                raise not_found()
            if not ended.more and not (body.any and here):
                for number in here:
                    waiter.ended(number)
                over = await services.open_connections.answer(caller, waiter.until_over(body.timeout))
                if over or len(waiter.left) < len(ids) - len(here):
                    ended = await _ended(services, caller, body, ids)
    pending = len(ids) - len(ended.ids.intersection(ids))
    begun: dict[int, int] = {}
    if body.graphs:
        async with services.database.tenant(caller.tenant_id) as connection:
            begun = await graphs.begun_by_many(connection, ids, caller.tenant_id)
    named = {str(task): graph for task, graph in begun.items()}
    return answer(
        WaitAnswer(
            ended=ended.outcomes,
            pending=pending,
            more=ended.more,
            documents=ended.documents,
            graphs=named if body.graphs else LEFT_OUT,
        )
    )


async def _ended(services: Services, caller: Caller, body: WaitRequest, ids: list[int]) -> _Ended:
    also = [number for number in body.also if 0 < number < 2**63]
    async with services.database.tenant(caller.tenant_id) as connection:
        rows, more = await reading.read_ended(
            connection,
            sorted({*ids, *also}),
            caller.tenant_id,
            first=ids,
            most_bytes=MOST_ANSWER_BYTES,
            most=MOST_DOCUMENTS if body.documents else MOST_IDS,
        )
        numbers = frozenset(row["task"] for row in rows)
        if not body.documents:
            return _Ended(numbers, [end_for(caller, outcome_of(row)) for row in rows], [], more)
        whole = await reading.read_tasks(connection, sorted(numbers), caller.tenant_id)
        documents = await documents_of(connection, whole, caller)
    return _Ended(frozenset(document.id for document in documents), [], documents, more)
