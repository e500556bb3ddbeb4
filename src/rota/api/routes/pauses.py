"""Holding a task back, and letting it go on."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.api.documents import answer
from rota.api.requests import task_id
from rota.api.services import Services, authorise
from rota.model.errors import conflict, not_found
from rota.model.task import STATUS, State
from rota.model.tenant import Caller, Scope
from rota.store import editing
from rota.store.database import AnyConnection
from rota.store.pausing import LiveTask, Resumed, live_task, pause_tasks, resume_tasks

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])


@router.post("/{task}/pause")
async def pause_task(request: Request, task: str) -> Response:
    """Holds a waiting task back; asks a running one to save and stop. `pausing` while it has not stopped yet."""
    services, caller = await authorise(request, Scope.WRITE)
    number = task_id(task)
    async with services.database.engine() as connection:
        paused = await pause_tasks(connection, [number], caller.tenant_id)
        found = await _found(connection, caller, number)
    for _, pool in paused.held_back:
        services.leadership.cancelled(pool, running=[], waiting=[number])
    for _, pool, attempt in paused.stopping:
        services.leadership.paused(pool, [(number, attempt)])
    if found.cancelling:
        raise conflict("being-cancelled", f"task {number} is being cancelled; it can't be paused any more")
    return _answer(number, found)


@router.post("/{task}/resume")
async def resume_task(request: Request, task: str) -> Response:
    """Lets a paused task go on from its checkpoint, with the tolerance it had left. Harmless if it was not paused."""
    services, caller = await authorise(request, Scope.WRITE)
    number = task_id(task)
    async with services.database.engine() as connection:
        resumed = await resume_tasks(connection, [number], caller.tenant_id)
        found = await _found(connection, caller, number)
    for one in resumed:
        _announce(services, one)
    return _answer(number, found)


async def _found(connection: AnyConnection, caller: Caller, number: int) -> LiveTask:
    found = await live_task(connection, number, caller.tenant_id)
    if found is not None:
        return found
    final = await editing.final_states(connection, [number], caller.tenant_id)
    if number not in final:
        raise not_found()
    raise conflict("already-terminal", f"task {number} has ended already: it is {final[number].label}")


def _announce(services: Services, resumed: Resumed) -> None:
    if resumed.state is State.BLOCKED:
        services.leadership.look_again([resumed.pool])  # what it waits for may have ended meanwhile
        return
    if resumed.state is State.READY:
        services.leadership.announce(resumed.pool, resumed.task)
    if resumed.wakes_in_seconds is not None:
        services.leadership.timed(resumed.pool, resumed.task.tenant, max(0.0, resumed.wakes_in_seconds))


def _answer(number: int, found: LiveTask) -> Response:
    state = found.state
    return answer({"id": number, "state": state.label, "status": STATUS[state].value, "pausing": found.pausing})
