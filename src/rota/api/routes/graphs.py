"""Graphs: submit, list, read; cancel, hold and release as a whole; retry failed tasks, or run all again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.every_fault import read_request
from rota.admit.judge.graphs import tasks_of
from rota.api.answers import answer, counts_of, filled, parents_by_rule
from rota.api.audited import Change, audit_tasks
from rota.api.cancelling import cancel_for
from rota.api.described import IDEMPOTENCY_KEY, NAME, PAGE, SCHEDULE, SUBMITTED, TEXT, Parameter, described, read_query
from rota.api.own_graph import cancel_growing, graph_number
from rota.api.own_tasks import check_own
from rota.api.reasons import ReasonRequest, read_reason
from rota.api.requests import existing, limit_of, read_body, text_of, when_of
from rota.api.routes.pauses import hold, release
from rota.api.services import Services, authorise
from rota.model.answers.fields import LEFT_OUT, only
from rota.model.answers.graphs import (
    GraphAgain,
    GraphCancelled,
    GraphDocument,
    GraphHeld,
    GraphPage,
    GraphSummary,
    GraphTask,
    PathStep,
    SubmittedGraph,
)
from rota.model.errors import Fault, conflict, invalid
from rota.model.request.task_request import GraphRequest
from rota.model.task import STATUS, State, Upstream
from rota.model.tenant import Caller
from rota.observe.graph_view import Member, by_status, called, counted, critical_path, relatives, whole_status
from rota.store import graphs
from rota.store.cancel_and_rerun import live_states
from rota.store.database import AnyConnection
from rota.store.graphs import GraphFilter
from rota.store.listing import find_schedule
from rota.store.reading import NEWEST, database_now

router = APIRouter(prefix="/v1/graphs", tags=["graphs"])

MOST_HELD_AT_ONCE = 2_000

_RELATIVES = {"ancestors_of": True, "descendants_of": False}


@router.post("", status_code=201)
@described(
    SubmittedGraph,
    also={200: (SubmittedGraph, "The idempotency key was used before for the same graph.")},
    body=GraphRequest,
    headers=(IDEMPOTENCY_KEY,),
)
async def submit_graph(request: Request) -> Response:
    """Submits a graph of up to 10,000 tasks, all or none of them. Dependencies name `ref`s, or ids of other tasks."""
    services, caller = await authorise(request)
    body = await read_body(request, limit=services.settings.body_limit_bytes)
    graph = await read_request(services.admission, caller, body, GraphRequest)
    nodes = tasks_of(graph)
    admitted = await services.admission.submit(
        caller,
        nodes.tasks,
        key=request.headers.get("idempotency-key"),
        body=body,
        single=False,
        graph=graph.name,
        arrays=nodes,
    )
    assert admitted.graph is not None, "the request has a graph"
    names = [str(task.ref) for task in nodes.tasks]
    return answer(
        SubmittedGraph(
            id=admitted.graph,
            name=graph.name,
            created=not admitted.replayed,
            tasks=dict(zip(names, admitted.ids, strict=True)),
        ),
        200 if admitted.replayed else 201,
    )


@router.get("")
@described(GraphPage, query=(NAME, SCHEDULE, *SUBMITTED, *PAGE))
async def list_graphs(request: Request) -> Response:
    """The graphs and arrays of the tenant, newest first, with their tasks counted.

    A page may be short, or empty, and still have a `next`.
    """
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query, default=20)
    before = services.cursors.read(query.get("cursor"), NEWEST)
    schedule = text_of(query, "schedule")
    async with services.database.tenant(caller.tenant_id) as connection:
        wanted = GraphFilter(
            name=text_of(query, "name"),
            schedule=None if schedule is None else await find_schedule(connection, caller.tenant_id, schedule) or 0,
            user=text_of(query, "user"),
            since=when_of(query, "since"),
            until=when_of(query, "until"),
        )
        page = await graphs.list_graphs(connection, caller.tenant_id, wanted, before=before, limit=limit)
    return answer(
        GraphPage(
            graphs=[_summary(row, counts_of(row), row["ended_at"]) for row in page.rows],
            next=services.cursors.make(page.next),
        )
    )


def _summary(row: asyncpg.Record, counts: dict[State, int], latest_end: datetime | None) -> GraphSummary:
    live = any(count and not state.terminal for state, count in counts.items())
    return filled(
        GraphSummary,
        row,
        status=whole_status(counts).value,
        user=row["user_name"],
        array=row["is_array"],
        schedule=row["schedule_name"],
        size=sum(counts.values()),
        counts=by_status(counts),
        states={state.label: count for state, count in sorted(counts.items())},
        ended_at=None if live else latest_end,
    )


@router.get("/{graph}")
@described(
    GraphDocument,
    query=(
        Parameter("ancestors_of", TEXT, "Only the tasks that this task waits for, by name or id."),
        Parameter("descendants_of", TEXT, "Only the tasks that wait for this task, by name or id."),
    ),
)
async def get_graph(request: Request, graph: str) -> Response:
    """One graph: its status, its tasks with states, edges and times, and its critical path."""
    services, caller = await authorise(request)
    query = read_query(request)
    number = await graph_number(services, caller, graph)
    async with services.database.tenant(caller.tenant_id) as connection:
        row = existing(await graphs.read_graph(connection, number, caller.tenant_id), "graph")
        rows = await graphs.read_members(connection, number, caller.tenant_id)
        successors = await graphs.successors(connection, number, caller.tenant_id)
        now = await database_now(connection)
    members = [_member(one, successors) for one in rows]
    counts = counted(member.state for member in members)
    shown = _chosen(members, query.get("ancestors_of"), query.get("descendants_of"))
    ends = [member.ended_at for member in members if member.ended_at is not None]
    head = _summary(row, counts, max(ends, default=None))
    path = [
        filled(PathStep, step, id=step.member.id, name=step.member.name, state=step.member.state.label)
        for step in critical_path(members, now)
    ]
    tasks = [_task(member, row) for member, row in zip(members, rows, strict=True) if member.id in shown]
    return answer(GraphDocument(**msgspec.structs.asdict(head), tasks=tasks, critical_path=path))


def _member(row: asyncpg.Record, successors: dict[int, int]) -> Member:
    same = {name: row[name] for name in ("id", "name", "started_at", "ended_at", "created_at")}
    return Member(**same, state=State(row["state"]), parents=graphs.parents_of(row, successors))


def _task(member: Member, row: asyncpg.Record) -> GraphTask:
    after = parents_by_rule(member.parents)
    return filled(
        GraphTask,
        row,
        state=member.state.label,
        status=STATUS[member.state].value,
        after=after[Upstream.SKIP],
        after_end=after[Upstream.RUN] or LEFT_OUT,
        after_failed=after[Upstream.FAILED] or LEFT_OUT,
        run_seconds=None if row["run_us"] is None else row["run_us"] / 1e6,
    )


def _chosen(members: list[Member], ancestors_of: str | None, descendants_of: str | None) -> set[int]:
    shown = {member.id for member in members}
    for name, text in (("ancestors_of", ancestors_of), ("descendants_of", descendants_of)):
        if text is None:
            continue
        starts = called(members, text)
        if not starts:
            raise invalid([Fault(f"/{name}", "invalid-filter", f"the graph has no task {text[:80]!r}")])
        shown &= relatives(members, starts, up=_RELATIVES[name])
    return shown


# ---- the whole ------------------------------------------------------------------------------------------------------


@router.post("/{graph}/cancel")
@described(GraphCancelled, body=ReasonRequest)
async def cancel_graph(request: Request, graph: str) -> Response:
    """Cancels the waiting tasks, and stops the running ones. Ended tasks do not change."""
    services, caller = await authorise(request)
    number, live = await _live(services, caller, graph)
    change = _of_graph("graph.cancel", number, await read_reason(request))
    document = await cancel_growing(services, caller, live, [number], cancel_for(change))
    return answer(GraphCancelled(id=number, cancelled=document.cancelled, cancelling=document.cancelling))


@router.post("/{graph}/hold")
@described(GraphHeld, body=ReasonRequest)
async def hold_graph(request: Request, graph: str) -> Response:
    """Holds the waiting tasks until they are released. The running ones go on, and are listed."""
    services, caller = await authorise(request)
    number, live = await _live(services, caller, graph)
    change = _of_graph("graph.hold", number, await read_reason(request))
    for some in _batches(live):
        await hold(services, caller, some, change)
    async with services.database.engine() as connection:
        states = await live_states(connection, live, caller.tenant_id)
    held = [task for task in live if states.get(task) is State.PAUSED]
    running = [task for task in live if states.get(task) is State.RUNNING]
    return answer(GraphHeld(id=number, held=held, running=running, released=LEFT_OUT))


@router.post("/{graph}/release")
@described(GraphHeld, body=ReasonRequest)
async def release_graph(request: Request, graph: str) -> Response:
    """Releases the held tasks, each with the tolerance that it had left."""
    services, caller = await authorise(request)
    number, live = await _live(services, caller, graph)
    change = _of_graph("graph.release", number, await read_reason(request))
    released = [task for some in _batches(live) for task in await release(services, caller, some, change)]
    return answer(only(GraphHeld, id=number, released=sorted(released)))


def _of_graph(action: str, number: int, reason: str) -> Change:
    return Change(action, reason, number, {"graph": number})


async def _live(services: Services, caller: Caller, graph: str) -> tuple[int, list[int]]:
    """The id of a graph, and its live tasks."""
    number = await graph_number(services, caller, graph)
    async with services.database.tenant(caller.tenant_id) as connection:
        live = await graphs.live_members(connection, number, caller.tenant_id)
    if not live:
        raise conflict("already-terminal", f"graph {number} has ended already")
    await check_own(services, caller, [number, *live])
    return number, live


def _batches(tasks: list[int]) -> Iterator[list[int]]:
    """Batches so small that a leader does not wait long for one."""
    return (tasks[first : first + MOST_HELD_AT_ONCE] for first in range(0, len(tasks), MOST_HELD_AT_ONCE))


@router.post("/{graph}/retry", status_code=201)
@described(GraphAgain, body=ReasonRequest)
async def retry_graph(request: Request, graph: str) -> Response:
    """Runs again, in the graph, the tasks that failed, were cancelled, expired, or were skipped because of these."""
    return await _again(request, graph, retry=True)


@router.post("/{graph}/rerun", status_code=201)
@described(GraphAgain, body=ReasonRequest)
async def rerun_graph(request: Request, graph: str) -> Response:
    """Runs all tasks again, as a new graph."""
    return await _again(request, graph, retry=False)


async def _again(request: Request, graph: str, *, retry: bool) -> Response:
    services, caller = await authorise(request)
    number = await graph_number(services, caller, graph)
    if retry:  # a rerun makes a graph of the caller's own
        await check_own(services, caller, [number])
    change = _of_graph("graph.retry" if retry else "graph.rerun", number, await read_reason(request))

    async def note(connection: AnyConnection, new_graph: int, tasks: list[int]) -> None:
        done = replace(change, after={"tasks": len(tasks)} if retry else {"rerun_as": new_graph})
        await audit_tasks(connection, caller, done, tasks)

    made = await services.graph_runs.again(caller, number, retry=retry, note=note)
    return answer(GraphAgain(id=made.graph, tasks=made.tasks, rerun_of=LEFT_OUT if retry else number), 201)
