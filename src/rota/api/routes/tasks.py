"""Tasks: list, read, wait, cancel, run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams

from rota.api.answers import answer, array_of, filled, output_of, summary_of, task_of
from rota.api.audited import Change, audit_tasks, entry_of
from rota.api.cancelling import cancel_for
from rota.api.described import (
    ANCESTORS_OF,
    DESCENDANTS_OF,
    PAGE,
    SUBMITTED,
    TASK_FILTERS,
    TENANT,
    TEXT,
    Parameter,
    described,
    one_of,
    read_query,
)
from rota.api.leaders import all_running
from rota.api.own_graph import cancel_with_submitted, check_tasks
from rota.api.own_tasks import check_own
from rota.api.payload import task_for
from rota.api.reasons import ReasonRequest, checked_reason, read_reason
from rota.api.related import RELATIONS, related_ids
from rota.api.requests import (
    check_scope,
    existing,
    limit_of,
    number_of,
    read_json,
    seconds_of,
    task_id,
    text_of,
    when_of,
)
from rota.api.services import Services, authorise
from rota.model.accounts.permissions import Scope
from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.task_changes import CancelAnswer, CancelManyAnswer, Retried
from rota.model.answers.tasks import TaskChange, TaskDocument, TaskPage
from rota.model.errors import Fault, Problem, conflict, invalid, not_found, unavailable
from rota.model.task import STATUS, State, Status
from rota.model.tenant import Caller
from rota.store import cancel_and_rerun, graphs, listing, reading
from rota.store.artifacts import task_outputs
from rota.store.audit import LONG_AGO, task_history
from rota.store.database import CONNECTION_LOST, AnyConnection
from rota.store.graphs import GraphFilter
from rota.store.listing import Page, TaskFilter
from rota.store.reading import NEWEST
from rota.store.tenants import read_tenants

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

MOST_WAIT_SECONDS = 30
MOST_IDS = 10_000
_OF_SINGLE_TASKS = {"state", "status", "tag", "graph", "worker", *RELATIONS}
SMALL_BODY = 4 * 1024 * 1024


class IdsRequest(msgspec.Struct, forbid_unknown_fields=True):
    ids: list[int]
    reason: str = ""


# ---- read --------------------------------------------------------------------------------------------------------


@router.get("")
@described(
    TaskPage,
    query=(
        Parameter("state", TEXT, f"In one of these states, with commas: {', '.join(s.label for s in State)}."),
        Parameter("status", one_of(*Status), "With this status, which is one or several states."),
        *TASK_FILTERS,
        ANCESTORS_OF,
        DESCENDANTS_OF,
        Parameter("worker", TEXT, "Running on this node, or ended there."),
        *SUBMITTED,
        TENANT,
        Parameter("fold", one_of("arrays"), "Each array as one entry, unless a filter applies to single tasks."),
        *PAGE,
    ),
)
async def list_tasks(request: Request) -> Response:
    """The tasks of the tenant, newest first. A page may be short, or empty, and still have a `next`."""
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query)
    before = services.cursors.read(query.get("cursor"), NEWEST)
    states = states_of(query.get("state"), query.get("status"))
    fold = _fold(query)
    tenant = await tenant_named(services, caller, query.get("tenant"))
    # The leaders know the running tasks, which are few; the queue may have millions of waiting ones before them.
    running = await all_running(services, tenant) if states == [State.RUNNING] else None
    async with services.database.tenant(tenant) as connection:
        schedule, worker = query.get("schedule"), query.get("worker")
        related = await related_ids(connection, query, tenant)
        wanted = TaskFilter(
            states=states,
            name=text_of(query, "name"),
            tag=tag_of(query.get("tag")),
            schedule=None
            if schedule is None
            else await listing.find_schedule(connection, tenant, _plain(schedule)) or 0,
            graph=await graphs.graph_named(connection, number_of(query, "graph"), tenant),
            ids=related.ids,
            nodes=None if worker is None else await listing.find_nodes(connection, _plain(worker)),
            user=text_of(query, "user"),
            since=when_of(query, "since"),
            until=when_of(query, "until"),
            without_arrays=fold,
        )
        page = await listing.list_tasks(connection, tenant, wanted, before=before, limit=limit, among=running)
        arrays = Page([], None)
        if fold:
            alike = GraphFilter(
                name=wanted.name,
                schedule=wanted.schedule,
                user=wanted.user,
                since=wanted.since,
                until=wanted.until,
                arrays=True,
            )
            arrays = await graphs.list_graphs(
                connection, tenant, alike, before=before, limit=limit, from_id=page.next or 0
            )
        names = await graphs.names_in_graphs(connection, [row["id"] for row in page.rows], tenant)
    found = {row["id"]: summary_of(row, names) for row in page.rows}
    found |= {row["id"]: array_of(row) for row in arrays.rows}
    looked = max(page.next or 0, arrays.next or 0)  # as far as both have read
    ids = sorted((number for number in found if number >= looked), reverse=True)
    following = ids[limit - 1] if len(ids) > limit else looked or None
    tasks, following_page = [found[number] for number in ids[:limit]], services.cursors.make(following)
    return answer(TaskPage(tasks=tasks, next=following_page, more_related=related.more or LEFT_OUT))


def _fold(query: QueryParams) -> bool:
    """Whether each array is one entry. Filters that differ among the tasks of an array apply to its tasks instead."""
    text = query.get("fold")
    if text not in (None, "arrays"):
        raise invalid(
            [
                Fault(
                    "/fold",
                    "invalid-filter",
                    f"fold is `arrays`, which lists each array as one entry, or is left out; not {text[:40]!r}",
                )
            ]
        )
    return text is not None and _OF_SINGLE_TASKS.isdisjoint(query)


async def tenant_named(services: Services, caller: Caller, name: str | None) -> int:
    if name is None or name == caller.tenant:
        return caller.tenant_id
    check_scope(caller, Scope.ADMIN)
    async with services.database.engine() as connection:
        found = {row.name: row.id for row in await read_tenants(connection)}
    if name not in found:
        raise invalid(
            [
                Fault(
                    "/tenant",
                    "invalid-filter",
                    f"there is no tenant {name[:40]!r}; rota tenant list shows those there are",
                )
            ]
        )
    looked = entry_of(caller, "task.read", "", reason="another tenant was named", tenant_id=found[name])
    services.audit_notes.sampled(looked, f"read {caller.user} {found[name]} task")
    return found[name]


def _plain(text: str) -> str:
    return text.replace("\0", "\ufffd")  # PostgreSQL text has no NUL, and no name either


def states_of(state: str | None, status: str | None) -> list[State]:
    chosen = list(State)
    if state is not None:
        wanted = state.split(",")
        unknown = [name for name in wanted if name not in {s.label for s in State}]
        if unknown:
            names = ", ".join(s.label for s in State)
            raise invalid([Fault("/state", "invalid-filter", f"{unknown[0][:40]!r} is not a state; there are {names}")])
        chosen = [s for s in chosen if s.label in wanted]
    if status is not None:
        if status.replace("-", " ") not in set(Status):
            names = ", ".join(Status)
            raise invalid([Fault("/status", "invalid-filter", f"{status[:40]!r} is not a status; there are {names}")])
        chosen = [s for s in chosen if STATUS[s].value == status.replace("-", " ")]
    return chosen


def tag_of(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    name, colon, value = text.partition(":")
    if not name or not colon or "\0" in text:
        raise invalid([Fault("/tag", "invalid-filter", f"tag is NAME:VALUE, such as team:ml, not {text[:40]!r}")])
    return name, value


@router.get("/{task}")
@described(
    TaskDocument,
    query=(
        Parameter(
            "wait",
            {"type": "number", "minimum": 0, "maximum": MOST_WAIT_SECONDS},
            "Answer when the task has ended, or after so many seconds.",
        ),
    ),
)
async def get_task(request: Request, task: str) -> Response:
    """One task. With `wait`, answers when it has ended, or when the time is up."""
    services, caller = await authorise(request)
    read_query(request)
    seconds = seconds_of(request.query_params, "wait", most=MOST_WAIT_SECONDS)
    number = task_id(task)
    await check_tasks(services, caller, [number])
    with services.waiting.waiter([number]) as waiter:
        document = await task_answer(services, caller, number)
        ended = document.status not in (Status.WAITING.value, Status.IN_PROGRESS.value)
        waits = not ended and seconds
        if waits and await services.open_connections.answer(caller, waiter.until_over(seconds)):
            document = await task_answer(services, caller, number)
    return answer(document)


async def task_row(connection: AnyConnection, number: int, tenant: int) -> asyncpg.Record:
    row = await reading.read_task(connection, number, tenant)
    if row is not None and row["live_state"] is None and row["final_state"] is None:
        row = await reading.read_task(connection, number, tenant)  # ended between two snapshots
    return existing(row)


async def task_answer(services: Services, caller: Caller, number: int) -> TaskDocument:
    async with services.database.tenant(caller.tenant_id) as connection:
        [document] = await documents_of(connection, [await task_row(connection, number, caller.tenant_id)], caller)
        await services.database.leave_tenant(connection)
        rows = await task_history(connection, number, caller.tenant_id, document.created_at or LONG_AGO)
    return msgspec.structs.replace(document, history=[_change(row) for row in rows])


def _change(row: asyncpg.Record) -> TaskChange:
    return filled(TaskChange, row, audit=row["id"], by=row["actor"])


async def documents_of(connection: AnyConnection, rows: Sequence[asyncpg.Record], caller: Caller) -> list[TaskDocument]:
    """The documents of tasks, with the files that those which are done have kept."""
    documents = [task_for(caller, task_of(row)) for row in rows]
    if not caller.may(Scope.RESULTS_READ):
        return documents
    keeping = {
        row["id"]: row["final_number"]
        for row, document in zip(rows, documents, strict=True)
        if row["final_state"] == State.DONE and "outputs" in document.spec
    }
    if not keeping:
        return documents
    stored = await task_outputs(connection, keeping, caller.tenant_id)
    return [
        msgspec.structs.replace(document, outputs=[output_of(one) for one in stored.get(document.id, [])])
        if document.id in keeping
        else document
        for document in documents
    ]


def checked_ids(ids: list[int]) -> list[int]:
    if not 1 <= len(ids) <= MOST_IDS:
        raise invalid([Fault("/ids", "out-of-range", f"ids has 1 to {MOST_IDS:,} ids, not {len(ids):,}")])
    if any(not 0 < number < 2**63 for number in ids):
        raise not_found()
    return sorted(set(ids))


# ---- cancel and run again ----------------------------------------------------------------------------------------


@router.post("/{task}/cancel")
@described(CancelAnswer, body=ReasonRequest)
async def cancel_task(request: Request, task: str) -> Response:
    """Cancels a waiting task at once; stops a running one. What it submitted with its key is cancelled with it."""
    services, caller = await authorise(request)
    number = task_id(task)
    await check_tasks(services, caller, [number])
    await check_own(services, caller, [number])
    change = Change("task.cancel", await read_reason(request))
    document = await cancel_with_submitted(services, caller, [number], cancel_for(change))
    if document.refused and not document.cancelled and not document.cancelling:
        refusal = document.refused[0]
        if refusal.reason == "unknown":
            raise not_found()
        raise has_ended(number, refusal.state)
    cancelling = bool(document.cancelling)
    state = State.RUNNING if number in document.cancelling else State.CANCELLED
    if document.refused:  # it has ended itself, but not all that it submitted
        state = next(one for one in State if one.label == document.refused[0].state)
    return answer(CancelAnswer(id=number, state=state.label, status=STATUS[state].value, cancelling=cancelling))


@router.post("/cancel")
@described(CancelManyAnswer, body=IdsRequest)
async def cancel_tasks(request: Request) -> Response:
    """Cancels many tasks; ended and unknown ones are refused."""
    services, caller = await authorise(request)
    body = await read_json(request, IdsRequest, limit=SMALL_BODY)
    ids = checked_ids(body.ids)
    await check_tasks(services, caller, ids)
    await check_own(services, caller, ids)
    change = Change("task.cancel", checked_reason(body.reason, "/reason"))
    return answer(await cancel_with_submitted(services, caller, ids, cancel_for(change, many=True)))


def has_ended(number: int, state: str) -> Problem:
    return conflict("already-terminal", f"task {number} has ended already: it is {state}", extra={"state": state})


@router.post("/{task}/retry", status_code=201)
@described(Retried, body=ReasonRequest)
async def retry_task(request: Request, task: str) -> Response:
    """Runs an ended task again, as a new task linked to it. Only once: a second call is refused with the new id."""
    services, caller = await authorise(request)
    number = task_id(task)
    await check_own(services, caller, [number])
    new_id = await rerun(services, caller, number, Change("task.retry", await read_reason(request)))
    return answer(Retried(id=new_id, retry_of=number), 201)


async def rerun(services: Services, caller: Caller, number: int, change: Change) -> int:
    async with services.database.engine() as connection:
        final = await cancel_and_rerun.final_states(connection, [number], caller.tenant_id)
        if number not in final:
            live = await cancel_and_rerun.live_states(connection, [number], caller.tenant_id)
            if number in live:
                raise conflict("not-dead-lettered", f"task {number} has not ended: it is {live[number].label}")
            raise not_found()
        if final[number] is State.DONE:
            raise conflict("not-dead-lettered", f"task {number} is done; submit it again if it must run again")
        try:
            new_id = (await services.admission.ids.take(1))[0]
        except CONNECTION_LOST as error:
            raise unavailable("the database can't be reached right now; try again") from error
        async with connection.transaction():
            run = await cancel_and_rerun.rerun_task(
                connection,
                number,
                caller.tenant_id,
                new_id=new_id,
                user=caller.user,
                server=services.membership.server_id,
            )
            if run.ready is not None:
                await audit_tasks(connection, caller, replace(change, after={"retried_as": run.rerun}), [number])
    if run.ready is None:
        raise Problem(
            "already-retried",
            status=409,
            title="Conflict",
            detail=f"task {number} was retried already, as task {run.rerun}",
            extra={"retried_as": run.rerun},
        )
    services.leadership.announce(run.pool, run.ready)
    if run.urgent_in_seconds is not None:
        services.leadership.timed(run.pool, run.ready.tenant, max(0.0, run.urgent_in_seconds))
    return run.rerun
