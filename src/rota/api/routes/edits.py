"""Changing a task that waits: priority, lane, cap, tolerance, pool.

As with schedules, whoever edits names the version that was read.
"""

from __future__ import annotations

import re

from fastapi import APIRouter, Request, Response
from msgspec import UNSET

from rota.admit.admission import MAYBE_STALE
from rota.admit.edits import Movable, edit_of
from rota.api.answers import answer
from rota.api.described import IF_MATCH, described
from rota.api.requests import read_json, task_id
from rota.api.routes.tasks import task_answer
from rota.api.services import Services, announce, authorise
from rota.model.answers.tasks import TaskDocument
from rota.model.errors import Fault, FaultList, Problem, conflict, invalid, not_found
from rota.model.request.edit import Edit, EditRequest
from rota.model.task import State
from rota.model.tenant import Caller, Scope
from rota.store import cancel_and_rerun, edits
from rota.store.edits import Edited, NotWaiting, VersionChanged, known_task

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

_SMALL_BODY = 64 * 1024
_IF_MATCH = re.compile(r'^(?:W/)?"?(\d{1,9})"?$', re.ASCII)


@router.patch("/{task}")
@described(TaskDocument, body=EditRequest, headers=(IF_MATCH,))
async def edit_task(request: Request, task: str) -> Response:
    """Changes what is given, while the task waits: 409 once it runs or has ended.

    Needs the version read (If-Match or `version`): 428 without, 412 if the task has changed since.
    """
    services, caller = await authorise(request, Scope.WRITE)
    number = task_id(task)
    async with services.database.tenant(caller.tenant_id) as connection:
        known = await known_task(connection, number, caller.tenant_id)
    if known is None:
        raise not_found()  # whatever the body says: others' tasks are as unknown as none
    wanted = await read_json(request, EditRequest, limit=_SMALL_BODY)
    version = _version(request, wanted, number)
    movable = Movable(known.shape, known.isolation, known.unplaceable_waits)
    change = await _checked(services, caller, wanted, movable)
    edited = await _edit(services, caller, number, change, version)
    _tell(services, number, edited)
    return answer(await task_answer(services, caller, number))


def _version(request: Request, body: EditRequest, number: int) -> int:
    header = request.headers.get("if-match")
    if header is not None:
        match = _IF_MATCH.match(header)
        if match is None:
            detail = f"{header[:40]!r} is not a version; send the one you read"
            raise invalid([Fault("/If-Match", "out-of-range", detail)])
        return int(match[1])
    if body.version is UNSET:
        raise Problem(
            "version-required", status=428, title="Say which version you read",
            detail=f"task {number} is edited with the version that was read: If-Match, or version in the body",
        )  # fmt: skip
    return body.version


async def _checked(services: Services, caller: Caller, wanted: EditRequest, task: Movable) -> Edit:
    faults = FaultList()
    change = edit_of(wanted, task, services.facts.of(caller), faults)
    # A pool or lane that was made a moment ago is no reason to refuse.
    if not MAYBE_STALE.isdisjoint(fault.code for fault in faults.faults) and await services.facts.reread():
        faults = FaultList()
        change = edit_of(wanted, task, services.facts.of(caller), faults)
    if faults.faults:
        raise invalid(faults.faults)
    return change


async def _edit(services: Services, caller: Caller, number: int, change: Edit, version: int) -> Edited:
    try:
        async with services.database.engine() as connection:
            edited = await edits.edit_task(
                connection, number, caller.tenant_id, change, version=version, user=caller.user
            )  # fmt: skip
            final = {} if edited else await cancel_and_rerun.final_states(connection, [number], caller.tenant_id)
    except NotWaiting as error:
        if error.cancelling:
            raise conflict(
                "being-cancelled", f"task {number} is being cancelled; it can't be edited any more"
            ) from None
        detail = f"task {number} runs already; only its cap can change now (rota extend {number} +1h)"
        raise conflict("already-running", detail) from None
    except VersionChanged as error:
        raise Problem(
            "version-changed", status=412, title="It has changed since",
            detail=f"task {number} has version {error.version} by now, not {version}; read it again",
            extra={"version": error.version},
        ) from None  # fmt: skip
    if edited is None:
        if number not in final:
            raise not_found()
        raise conflict("already-terminal", f"task {number} has ended already: it is {final[number].label}")
    return edited


def _tell(services: Services, number: int, edited: Edited) -> None:
    """To the leader that knew it, and to the one that is to know it."""
    now = edited.now
    if now.state is State.READY and now.pool == edited.pool_before:
        services.leadership.reordered(now.pool, now.task.tenant, number, now.task.order)
    else:
        services.leadership.cancelled(edited.pool_before, running=[], waiting=[number])
    if now.state is not State.PAUSED:
        announce(services.leadership, now)
