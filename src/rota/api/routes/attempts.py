"""The attempts and results of a task, or of each task of an array or a graph."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, attempt_of, outcome_of
from rota.api.described import CURSOR, PAGE, Parameter, described, read_query, whole
from rota.api.members import MemberPage, read_members
from rota.api.requests import limit_of, task_id, whole_number
from rota.api.services import Services, authorise
from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.tasks import AttemptList, ResultPage, TaskResult
from rota.model.task import STATUS, State
from rota.model.tenant import Caller, Scope
from rota.store import cancel_and_rerun, reading

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

MOST_RESULTS = 100  # of a page: each may have 256 KiB


@router.get("/{task}/attempts")
@described(AttemptList, query=PAGE)
async def list_attempts(request: Request, task: str) -> Response:
    """The attempts of a task, oldest first; the last one may be running.

    Of an array or a graph, the attempts of `limit` of its tasks.
    """
    services, caller = await authorise(request, Scope.READ)
    query = read_query(request)
    number, limit, after = task_id(task), limit_of(query), services.cursors.read(query.get("cursor"), 0)
    page = await _page(services, caller, number, after=after, limit=limit)
    ids = [number] if page is None else [member.id for member in page.members]
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await reading.read_attempts(connection, ids, caller.tenant_id)
    attempts = [attempt_of(row) for row in rows]
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
    services, caller = await authorise(request, Scope.READ)
    query = read_query(request)
    limit = whole_number(query, "limit", default=50, least=1, most=MOST_RESULTS)
    number, after = task_id(task), services.cursors.read(query.get("cursor"), 0)
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
