"""Pause and resume, hold and release. A pause also stops a running task; a hold is for waiting tasks, with a reason."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer
from rota.api.audited import Change, audit_tasks
from rota.api.cancelling import refused_ended
from rota.api.described import described
from rota.api.own_tasks import check_own
from rota.api.reasons import ReasonRequest, checked_reason, read_reason
from rota.api.requests import read_json, task_id
from rota.api.routes.tasks import checked_ids, has_ended
from rota.api.services import Services, announce, authorise, tell_held
from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.task_changes import HoldAnswer, PauseAnswer, RefusedTask
from rota.model.errors import conflict, not_found
from rota.model.task import STATUS, State
from rota.model.tenant import Caller
from rota.store import cancel_and_rerun, pausing
from rota.store.database import AnyConnection
from rota.store.pausing import LiveTask, live_task, pause_tasks, resume_tasks

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

_SMALL_BODY = 4 * 1024 * 1024


class HoldManyRequest(msgspec.Struct, forbid_unknown_fields=True):
    ids: list[int]
    reason: str = ""


class ReleaseManyRequest(msgspec.Struct, forbid_unknown_fields=True):
    ids: list[int]
    reason: str = ""


@router.post("/{task}/pause")
@described(PauseAnswer, body=ReasonRequest)
async def pause_task(request: Request, task: str) -> Response:
    """Pauses a waiting task; asks a running one to save and stop. `pausing` until it has stopped."""
    services, caller = await authorise(request)
    number = task_id(task)
    await check_own(services, caller, [number])
    reason = await read_reason(request)
    async with services.database.engine() as connection:
        async with connection.transaction():
            paused = await pause_tasks(connection, [number], caller.tenant_id, user=caller.user)
            changed = [number] if paused.held_back or paused.stopping else []
            await audit_tasks(connection, caller, Change("task.pause", reason), changed)
        found = await _found(connection, caller, number)
    for _, pool in paused.held_back:
        services.leadership.cancelled(pool, running=[], waiting=[number])
    for _, pool, attempt in paused.stopping:
        services.leadership.paused(pool, [(number, attempt)])
    if found.cancelling:
        raise conflict("being-cancelled", f"task {number} is being cancelled; it can't be paused any more")
    return _answer(number, found)


@router.post("/{task}/resume")
@described(PauseAnswer, body=ReasonRequest)
async def resume_task(request: Request, task: str) -> Response:
    """Resumes a paused task from its checkpoint, with the tolerance that it had left. Harmless if it is not paused."""
    return await _resume(request, task, "task.resume")


async def _resume(request: Request, task: str, action: str) -> Response:
    services, caller = await authorise(request)
    number = task_id(task)
    await check_own(services, caller, [number])
    reason = await read_reason(request)
    released = await release(services, caller, [number], Change(action, reason))
    async with services.database.engine() as connection:
        if released:  # it may have run and ended meanwhile
            final = await cancel_and_rerun.final_states(connection, [number], caller.tenant_id)
            if number in final:
                return _said(number, final[number])
        return _answer(number, await _found(connection, caller, number))


# ---- holds ---------------------------------------------------------------------------------------------------------


@router.post("/{task}/hold")
@described(PauseAnswer, body=ReasonRequest)
async def hold_task(request: Request, task: str) -> Response:
    """Holds a waiting task until it is released, for a reason. 409 if it runs."""
    services, caller = await authorise(request)
    number = task_id(task)
    await check_own(services, caller, [number])
    await hold(services, caller, [number], Change("task.hold", await read_reason(request)))
    async with services.database.engine() as connection:
        found = await _found(connection, caller, number)
    if found.state is State.RUNNING:
        detail = f"task {number} runs already; a hold is for one that waits (rota pause {number} stops it for a while)"
        raise conflict("already-running", detail)
    return _answer(number, found)


@router.post("/{task}/release")
@described(PauseAnswer, body=ReasonRequest)
async def release_task(request: Request, task: str) -> Response:
    """Releases a held task, with the tolerance that it had left. Harmless if it is not held."""
    return await _resume(request, task, "task.release")


@router.post("/hold")
@described(HoldAnswer, body=HoldManyRequest)
async def hold_tasks(request: Request) -> Response:
    """Holds waiting tasks; the others are refused with their state."""
    services, caller = await authorise(request)
    body = await read_json(request, HoldManyRequest, limit=_SMALL_BODY)
    ids = checked_ids(body.ids)
    await check_own(services, caller, ids)
    change = Change("task.hold", checked_reason(body.reason, "/reason"))
    await hold(services, caller, ids, change, many=True)
    held, refused = await _many(services, caller, ids, frozenset({State.PAUSED}))
    return answer(HoldAnswer(held=held, released=LEFT_OUT, refused=refused))


@router.post("/release")
@described(HoldAnswer, body=ReleaseManyRequest)
async def release_tasks(request: Request) -> Response:
    """Releases held tasks; ended and unknown ones are refused."""
    services, caller = await authorise(request)
    body = await read_json(request, ReleaseManyRequest, limit=_SMALL_BODY)
    ids = checked_ids(body.ids)
    await check_own(services, caller, ids)
    change = Change("task.release", checked_reason(body.reason, "/reason"))
    now = frozenset(await release(services, caller, ids, change, many=True))
    released, refused = await _many(services, caller, ids, frozenset(State) - {State.PAUSED}, now)
    return answer(HoldAnswer(held=LEFT_OUT, released=released, refused=refused))


async def hold(services: Services, caller: Caller, ids: list[int], change: Change, *, many: bool = False) -> list[int]:
    """Holds waiting tasks; returns those that are held now and were not before."""
    sentence = pausing.held_reason(caller.user, change.reason)
    also: list[int] = []
    async with services.database.engine() as connection, connection.transaction():
        held = await pausing.hold_tasks(connection, ids, caller.tenant_id, sentence, user=caller.user, also=also)
        await audit_tasks(connection, caller, change, [*(task for task, _ in held), *also], many=many)
    tell_held(services.leadership, held)
    return [task for task, _ in held]


async def release(
    services: Services, caller: Caller, ids: list[int], change: Change, *, many: bool = False
) -> list[int]:
    """Releases held tasks; returns those that were held."""
    also: list[int] = []
    async with services.database.engine() as connection, connection.transaction():
        released = await resume_tasks(connection, ids, caller.tenant_id, user=caller.user, also=also)
        await audit_tasks(connection, caller, change, [*(one.task.id for one in released), *also], many=many)
    for one in released:
        announce(services.leadership, one)
    return [one.task.id for one in released]


async def _many(
    services: Services,
    caller: Caller,
    ids: list[int],
    right: frozenset[State],
    now: frozenset[int] = frozenset(),
) -> tuple[list[int], list[RefusedTask]]:
    """The tasks in one of the states `right`, and refusals for the others.

    `now`: tasks that were just changed and count as right; a released task may have run and ended already.
    """
    async with services.database.engine() as connection:
        live = await cancel_and_rerun.live_states(connection, ids, caller.tenant_id)
        rest = [number for number in ids if number not in live]
        final = await cancel_and_rerun.final_states(connection, rest, caller.tenant_id) if rest else {}
    refused = [
        RefusedTask(id=number, reason="running" if live[number] is State.RUNNING else "held", state=live[number].label)
        for number in ids
        if number in live and live[number] not in right and number not in now
    ]
    refused += [refused_ended(number, final) for number in rest if number not in now]
    return [number for number in ids if number in now or live.get(number) in right], refused


async def _found(connection: AnyConnection, caller: Caller, number: int) -> LiveTask:
    found = await live_task(connection, number, caller.tenant_id)
    if found is not None:
        return found
    final = await cancel_and_rerun.final_states(connection, [number], caller.tenant_id)
    if number not in final:
        raise not_found()
    raise has_ended(number, final[number].label)


def _answer(number: int, found: LiveTask) -> Response:
    return _said(number, found.state, pausing=found.pausing)


def _said(number: int, state: State, *, pausing: bool = False) -> Response:
    return answer(PauseAnswer(id=number, state=state.label, status=STATUS[state].value, pausing=pausing))
