"""Dead letters: tasks that used up their attempts. List, read with their history, requeue, discard."""

from __future__ import annotations

from datetime import datetime

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, attempt_of, filled, raw_json
from rota.api.audited import Change, audit_tasks
from rota.api.described import PAGE, TASK_FILTERS, TENANT, TEXT, USER, WHEN, Parameter, described, one_of, read_query
from rota.api.own_tasks import check_own
from rota.api.payload import attempt_for
from rota.api.reasons import checked_reason
from rota.api.requests import limit_of, number_of, read_json, task_id, time_of
from rota.api.routes.tasks import rerun, tag_of, task_answer, tenant_named
from rota.api.services import Services, authorise
from rota.model.answers.dead_letters import (
    DeadLetterDocument,
    DeadLetterPage,
    DeadLetterSummary,
    DiscardAnswer,
    RequeueAnswer,
    Requeued,
    RunDocument,
)
from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.task_changes import RefusedTask
from rota.model.errors import Fault, Problem, invalid, not_found
from rota.model.event import LIMITS
from rota.model.request.operation import OperationWhere
from rota.model.task import Kind, State
from rota.model.tenant import Caller
from rota.store import dead_letters, graphs, listing, reading
from rota.store.database import AnyConnection
from rota.store.dead_letters import DeadFilter
from rota.store.reading import NEWEST

router = APIRouter(prefix="/v1/dead", tags=["dead letters"])

MOST_AT_ONCE = 1_000
LONGEST_REASON = 200
FILTERS = ("name", "tag", "user", "reason", "over", "since", "until", "graph", "schedule")
_OVER = {limit: failure for failure, limit in LIMITS.items()}


class DeadRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Dead letters by id. An operation takes them by filter: POST /v1/operations."""

    ids: list[int]
    reason: str = ""


@router.get("")
@described(
    DeadLetterPage,
    query=(
        *TASK_FILTERS,
        USER,
        Parameter("reason", TEXT, "With this text anywhere in the reason."),
        Parameter("over", one_of(*_OVER), "Over this limit."),
        Parameter("since", WHEN, "Dead since: a duration before now, or a time with its offset."),
        Parameter("until", WHEN, "Dead before: a duration before now, or a time with its offset."),
        TENANT,
        *PAGE,
    ),
)
async def list_dead_letters(request: Request) -> Response:
    """The tenant's dead letters, newest first.

    A page may be short, or empty, and still have a `next`.
    """
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query)
    before = services.cursors.read(query.get("cursor"), NEWEST)
    given = {name: query.get(name) for name in FILTERS if name != "graph"}
    where = OperationWhere(**given, graph=number_of(query, "graph"))
    tenant = await tenant_named(services, caller, query.get("tenant"))
    async with services.database.tenant(tenant) as connection:
        wanted = await dead_filter(connection, tenant, where, "")
        page = await dead_letters.list_dead(connection, tenant, wanted, before=before, limit=limit)
    return answer(DeadLetterPage(tasks=[_letter(row) for row in page.rows], next=services.cursors.make(page.next)))


@router.get("/{task}")
@described(DeadLetterDocument)
async def get_dead_letter(request: Request, task: str) -> Response:
    """One dead letter with its history: the task, its attempts, and all runs of the same work."""
    services, caller = await authorise(request)
    read_query(request)
    number = task_id(task)
    async with services.database.tenant(caller.tenant_id) as connection:
        letter = await dead_letters.read_letter(connection, number, caller.tenant_id)
        if letter is None:
            raise not_found("dead letter", number)
        attempts = await reading.read_attempts(connection, [number], caller.tenant_id)
        runs = await dead_letters.read_runs(connection, number, caller.tenant_id)
    return answer(
        DeadLetterDocument(
            id=number,
            reason=letter["reason"],
            died_at=letter["died_at"],
            task=await task_answer(services, caller, number),
            attempts=[attempt_for(caller, attempt_of(row)) for row in attempts],
            runs=[
                filled(RunDocument, row, state=State(row["state"]).label if row["state"] is not None else None)
                for row in runs
            ],
        )
    )


@router.post("/requeue")
@described(RequeueAnswer, body=DeadRequest)
async def requeue_dead_letters(request: Request) -> Response:
    """Runs dead letters again, as new tasks. Up to 1,000 a call; an operation requeues by filter."""
    services, caller, ids, reason = await _asked(request)
    change = Change("task.requeue", reason)
    requeued: list[Requeued] = []
    refused: list[RefusedTask] = []
    for number in ids:
        try:
            requeued.append(Requeued(id=number, new_id=await rerun(services, caller, number, change)))
        except Problem as problem:
            if problem.status == 503:
                raise
            refused.append(RefusedTask(id=number, reason=problem.detail, state=LEFT_OUT))
    return answer(RequeueAnswer(requeued=requeued, refused=refused))


@router.post("/discard")
@described(DiscardAnswer, body=DeadRequest)
async def discard_dead_letters(request: Request) -> Response:
    """Removes dead letters from the list; their history stays. Up to 1,000 a call; an operation discards by filter."""
    services, caller, ids, reason = await _asked(request)
    async with services.database.engine() as connection, connection.transaction():
        discarded = await dead_letters.discard_dead(connection, ids, caller.tenant_id)
        await audit_tasks(connection, caller, Change("task.discard", reason), discarded, many=True)
    there = set(discarded)
    refused = [
        RefusedTask(id=number, reason=f"there is no dead letter {number}", state=LEFT_OUT)
        for number in ids
        if number not in there
    ]
    return answer(DiscardAnswer(discarded=discarded, refused=refused))


async def _asked(request: Request) -> tuple[Services, Caller, list[int], str]:
    services, caller = await authorise(request)
    body = await read_json(request, DeadRequest, limit=1024 * 1024)
    if not 1 <= len(body.ids) <= MOST_AT_ONCE:
        raise invalid([Fault("/ids", "out-of-range", f"1 to {MOST_AT_ONCE} ids, not {len(body.ids)}")])
    wrong = next((number for number in body.ids if not 0 < number < 2**63), None)
    if wrong is not None:
        raise invalid([Fault("/ids", "out-of-range", f"{wrong} is not an id; an id is a positive 64-bit number")])
    await check_own(services, caller, body.ids)
    return services, caller, sorted(set(body.ids)), checked_reason(body.reason, "/reason")


async def dead_filter(connection: AnyConnection, tenant: int, where: OperationWhere, pointer: str) -> DeadFilter:
    """Raises `invalid` with all faults. A schedule that does not exist has the id 0."""
    faults: list[Fault] = []
    for field in ("name", "reason", "user"):
        text: str | None = getattr(where, field)
        if text is not None and ("\0" in text or not text or len(text) > LONGEST_REASON):
            faults.append(
                Fault(f"{pointer}/{field}", "invalid-filter", f"{field} has no NUL character; {text[:40]!r} has one")
            )
    if where.over is not None and where.over not in _OVER:
        there = ", ".join(_OVER)
        faults.append(
            Fault(
                f"{pointer}/over",
                "invalid-filter",
                f"{where.over[:40]!r} is not a limit that a task can exceed; there are {there}",
            )
        )
    if where.graph is not None and not 0 < where.graph < 2**63:
        faults.append(
            Fault(
                f"{pointer}/graph",
                "invalid-filter",
                f"graph is the id of a graph, a positive whole number, not {where.graph}",
            )
        )
    moments: dict[str, datetime | None] = {}
    tag: tuple[str, str] | None = None
    try:
        tag = tag_of(where.tag)
    except Problem as problem:
        faults += [Fault(f"{pointer}{one.pointer}", one.code, one.detail) for one in problem.faults]
    for field in ("since", "until"):
        try:
            moments[field] = time_of(getattr(where, field), field)
        except Problem as problem:
            faults += [Fault(f"{pointer}{one.pointer}", one.code, one.detail) for one in problem.faults]
    if faults:
        raise invalid(faults)
    schedule = None
    if where.schedule is not None:
        schedule = await listing.find_schedule(connection, tenant, where.schedule.replace("\0", "\ufffd")) or 0
    return DeadFilter(
        name=where.name,
        tag=tag,
        schedule=schedule,
        graph=await graphs.graph_named(connection, where.graph, tenant),
        user=where.user,
        reason=where.reason,
        failure=None if where.over is None else _OVER[where.over],
        since=moments["since"],
        until=moments["until"],
    )


def _letter(row: asyncpg.Record) -> DeadLetterSummary:
    return filled(
        DeadLetterSummary,
        row,
        kind=Kind(row["kind"]).label,
        state="failed",
        status="failed",
        user=row["user_name"],
        attempt=row["number"] or 0,
        tags=raw_json(row["tags"]) or {},
    )
