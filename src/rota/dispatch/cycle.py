"""The cycle: plans, authorises a batch of starts under this epoch in one statement, takes refusals back, delivers.

Only attempts that the store authorised are sent, and only after the commit: no process starts without a committed row.
If the reply is lost, the rows say which attempts were authorised.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
import msgspec
import structlog

from rota.decide.messages import PlaceRefused, Preempt, Start, StartRefused
from rota.dispatch.concurrency_keys import hold_cooled
from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.operator_rules import follow_rules, learn_rules
from rota.dispatch.parent_results import Inputs, inputs_of
from rota.dispatch.pool import Authorised, PoolState
from rota.dispatch.recalls import send_recalls
from rota.dispatch.secrets import Resolved, refuse, resolve, with_key
from rota.dispatch.spacing import Spacing
from rota.dispatch.watch import follow_drains
from rota.model.attempt import Input, Outcome
from rota.model.audit import SecretUse
from rota.model.node import Closed
from rota.model.queue import ReadyTask
from rota.model.secret import SPEC_HEADS
from rota.store import concurrency_keys, nodes, queue
from rota.store.database import CONNECTION_LOST, Connection
from rota.store.queue import Fence, Started, StartRequest
from rota.wire import Result, Run, Stop

log = structlog.get_logger()

MOST_STARTS = 1_000

StartStatement = Callable[[Connection, Fence, list[StartRequest]], Awaitable[list[Started]]]


async def run_cycle(pool: PoolState, connection: FencedConnection) -> None:
    """Runs for ever: whenever something changed, starts the tasks that can start."""
    spacing = Spacing(pool.clock, pool.sleep, Spacing.STARTS)
    while True:
        await pool.wakes.cycle.wait()
        await spacing.wait(lambda: pool.wakes.freed)
        pool.wakes.cycle.clear()
        send_recalls(pool)
        try:
            if pool.wakes.poll_due:
                reading = await connection.get()
                await learn_rules(pool, reading)
                follow_drains(pool, await nodes.draining_nodes(reading, pool.id))
                await pool.loader.poll(reading, pool.now_us())
                pool.wakes.poll_due = False
            if pool.loader.next_timer_at is not None and pool.loader.next_timer_at <= pool.clock():
                await pool.loader.fill_due(await connection.get(), pool.now_us())
            if pool.loader.wants():
                await pool.loader.fill(await connection.get(), pool.now_us())
        except CONNECTION_LOST as error:
            log.warning("cycle.database_away", pool=pool.name, error=repr(error))
            connection.lost()
            continue  # the slow poll wakes this loop again
        while pool.lease.valid():
            pool.wakes.freed = 0
            send_recalls(pool)
            decisions = pool.core.plan(pool.now_us(), MOST_STARTS)
            starts = [decision for decision in decisions if isinstance(decision, Start)]
            for decision in decisions:
                if isinstance(decision, Preempt):
                    preempt(pool, decision)
            allowed = await hold_cooled(pool, connection, starts)
            if allowed:
                await _authorise_and_send(pool, connection, allowed)
                spacing.mark(len(allowed))
            if pool.loader.wants():
                pool.wakes.cycle.set()
                break
            if len(starts) < MOST_STARTS:
                break  # nothing more could start; whatever changes that wakes us


def preempt(pool: PoolState, decision: Preempt) -> None:
    """Asks the node to stop the attempt gently. It comes back as disrupted, which uses up no attempt."""
    attempt = pool.attempts.get(decision.task)
    session = pool.sessions.get(decision.node)
    if attempt is None or session is None or session.boot != attempt.boot:
        return  # the attempt or its node is ending already: either frees resources
    log.info("cycle.preempted", pool=pool.name, task=decision.task, for_task=decision.for_task)
    session.send(Stop(pool.lease.epoch, [(decision.task, attempt.attempt)], "preempt"))


async def _authorise_and_send(pool: PoolState, connection: FencedConnection, starts: list[Start]) -> None:
    requests = _requests(pool, starts)
    started, busy = await _authorise_all(pool, connection, requests, starts)
    authorised = {row.task for row in started}
    refused = [start for start in starts if start.task.id not in authorised]
    if refused:
        await _take_back(pool, connection, refused, busy)
    inputs = await inputs_of(pool, connection, started)
    if inputs is None:
        return  # the lease is over: the next leader finds these rows and asks the nodes
    asked = {request.task: request for request in requests}
    planned = {start.task.id: start.task for start in starts}
    named = [row for row in started if row.spec.startswith(SPEC_HEADS)]
    # Tasks without secrets and keys first: the others need one more query, and may have to wait for the database.
    plain = [row for row in started if not row.spec.startswith(SPEC_HEADS)] if named else started
    _send(pool, plain, asked, planned, inputs, {})
    if not named:
        return
    resolved = await resolve(pool, connection, [(row.task, planned[row.task].tenant, row.spec) for row in named])
    if resolved is not None:  # else the lease is over; the next leader finds these rows
        _send(pool, named, asked, planned, inputs, resolved)


async def _take_back(pool: PoolState, connection: FencedConnection, refused: list[Start], busy: set[int]) -> None:
    """Tasks that were not judged, or may not start at present, queue again; the core forgets the others as stale.

    Rules are read only after a refusal: the start statement itself keeps pauses and drains.
    """
    changed = False
    try:
        reading = await connection.get()
        changed = await follow_rules(pool, reading)
        follow_drains(pool, await nodes.draining_nodes(reading, pool.id))
    except CONNECTION_LOST as error:
        log.warning("cycle.rules_unknown", pool=pool.name, error=repr(error))
        connection.lost()  # the slow poll finds these tasks again
    for start in refused:
        if changed or start.task.id in busy or _is_held_back(pool, start):
            pool.core.apply(PlaceRefused(start.task), pool.now_us())
        else:
            pool.core.apply(StartRefused(start.task.id), pool.now_us())
    pool.wakes.cycle.set()  # the resources of the refused starts are free for others at once


def _is_held_back(pool: PoolState, start: Start) -> bool:
    """Whether an operator's pause or drain, of which the leader has learned since it planned the start, forbids it."""
    state, session = pool.core.state, pool.sessions.get(start.node)
    paused = state.policy.paused or state.tenants[start.task.tenant].paused
    return paused or (session is not None and session.draining)


def _send(
    pool: PoolState,
    started: list[Started],
    asked: dict[int, StartRequest],
    planned: dict[int, ReadyTask],
    inputs: Inputs,
    resolved: dict[int, Resolved],
) -> None:
    at = pool.clock()
    fence_of = pool.settings.timings.fence_ms
    runs: dict[int, list[Run]] = {}
    for row in started:
        request = asked[row.task]
        pool.attempts[row.task] = Authorised(row.task, row.attempt, request.node, request.boot, request.grace_ms, at)
        run = _run(planned[row.task], row, fence_of(request.grace_ms), inputs.get(row.task, ()))
        if resolved:
            secrets = resolved[row.task]
            refusal = refuse(secrets, pool.sessions.get(request.node))
            if refusal is not None:
                pool.report(Result(row.task, row.attempt, Outcome.REFUSED, 0, failure=refusal), request.boot)
                continue
            run = msgspec.structs.replace(run, secrets=secrets.secrets)
            _note_use(pool, planned[row.task].tenant, row, secrets)
            if secrets.gets_key:
                run = with_key(run, pool.attempt_keys)
        runs.setdefault(request.node, []).append(run)
    pool.counters.started += len(started)
    for node, batch in runs.items():
        _deliver(pool, node, batch)


def _note_use(pool: PoolState, tenant: int, row: Started, resolved: Resolved) -> None:
    if resolved.secrets:
        names = tuple(secret.name for secret in resolved.secrets)
        pool.on_secrets_used(SecretUse(tenant=tenant, task=row.task, attempt=row.attempt, names=names))


def _requests(pool: PoolState, starts: list[Start]) -> list[StartRequest]:
    requests = []
    for start in sorted(starts, key=lambda start: start.task.id):  # rows are locked in this order
        session = pool.sessions.get(start.node)
        if session is not None:  # else the node left after the plan: the start counts as refused
            grace_ms = pool.settings.timings.grace_ms(start.task.cap_ms)
            requests.append(StartRequest(start.task.id, start.task.version, start.node, session.boot, grace_ms))
    return requests


async def _authorise_all(
    pool: PoolState, connection: FencedConnection, requests: list[StartRequest], starts: list[Start]
) -> tuple[list[Started], set[int]]:
    """The authorised attempts; and the tasks whose concurrency key, counted across pools, had no place left.

    Tasks with such a key have a transaction of their own; all others are one statement.
    """
    holders = {start.task.id: start.task for start in starts if start.task.concurrency_global}
    if not holders:
        return await _authorise(pool, connection, requests, queue.start_attempts), set()
    busy: set[int] = set()

    async def start_with_places(asking: Connection, fence: Fence, some: list[StartRequest]) -> list[Started]:
        places = []
        for request in some:
            task = holders[request.task]
            assert task.concurrency_key is not None
            key, limit = task.concurrency_key, task.concurrency_limit
            places.append(concurrency_keys.PlaceRequest(request, task.tenant, key, limit))
        started, refused = await concurrency_keys.start_with_places(asking, fence, places)
        busy.update(refused)
        return started

    plain = [request for request in requests if request.task not in holders]
    holding = [request for request in requests if request.task in holders]
    started = await _authorise(pool, connection, plain, queue.start_attempts)
    return started + await _authorise(pool, connection, holding, start_with_places), busy


async def _authorise(
    pool: PoolState, connection: FencedConnection, requests: list[StartRequest], start: StartStatement
) -> list[Started]:
    if not requests:
        return []
    try:
        return await start(await connection.get(), pool.fence, requests)
    except asyncpg.TransactionRollbackError as error:  # a deadlock: nothing was started
        log.warning("cycle.start_rolled_back", pool=pool.name, tasks=len(requests), error=repr(error))
        return []
    except CONNECTION_LOST as error:
        log.warning("cycle.start_in_doubt", pool=pool.name, tasks=len(requests), error=repr(error))
        connection.lost()
    while pool.lease.valid():
        try:
            return await queue.find_started(await connection.get(), pool.fence, requests)
        except CONNECTION_LOST:
            connection.lost()
            pool.wakes.cycle.clear()
            await pool.wakes.cycle.wait()  # the slow poll sets it: no busy loop while the database is away
    return []  # the lease is over; the next leader finds these rows and asks the nodes


def _run(task: ReadyTask, row: Started, fence_ms: int, inputs: tuple[Input, ...]) -> Run:
    return Run(
        row.task,
        row.attempt,
        task.tenant,
        row.kind,
        row.name,
        task.shape,
        task.cap_ms,
        fence_ms,
        row.idempotency_key or f"rota-{row.task}",
        row.spec.encode(),
        (),
        inputs,
    )


def _deliver(pool: PoolState, node: int, runs: list[Run]) -> None:
    session = pool.sessions.get(node)
    if session is None:
        return  # the attempts are reconciled when the node comes back, or given up after their grace
    if session.boot != pool.attempts[runs[0].task].boot:  # no attempt of the old boot can be running
        for run in runs:
            pool.give_up(pool.attempts[run.task], Outcome.DISRUPTED, "its node restarted before it was sent")
    elif session.reported_closed is Closed.LEAVING:  # meanwhile; it may be gone before they arrive
        for run in runs:
            pool.give_up(pool.attempts[run.task], Outcome.RECALLED, "its node is about to leave")
    else:
        session.start(runs, {run.shape: pool.core.state.shapes[run.shape].resources for run in runs})
