"""Editing a waiting task (priority, lane, cap, tolerance, pool), and extending the cap of a running one.

An edit names the version that was read, as with schedules.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET

from rota.admit.admission import MAYBE_STALE
from rota.admit.edits import Movable, edit_of
from rota.api.answers import answer
from rota.api.audited import audit
from rota.api.described import IF_MATCH, described
from rota.api.own_tasks import check_own
from rota.api.reasons import checked_reason
from rota.api.requests import existing, if_match, read_json, task_id
from rota.api.routes.tasks import has_ended, task_answer
from rota.api.services import Services, authorise, tell_edited
from rota.model.answers.task_changes import Extended
from rota.model.answers.tasks import TaskDocument
from rota.model.errors import Fault, FaultList, Problem, conflict, invalid, not_found
from rota.model.request.edit import Edit, EditRequest
from rota.model.task import STATUS, State
from rota.model.tenant import Caller
from rota.model.units import duration_text, milliseconds_of
from rota.store import cancel_and_rerun, edits, reading
from rota.store.caps import CapTooLong, CapTooShort, change_cap
from rota.store.database import AnyConnection
from rota.store.edits import Edited, NotWaiting, VersionChanged, known_task

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

_SHORTEST_MS = 10
_LARGEST_MS = 10 * 366 * 86_400_000


@router.patch("/{task}")
@described(TaskDocument, body=EditRequest, headers=(IF_MATCH,))
async def edit_task(request: Request, task: str) -> Response:
    """Changes the given fields of a waiting task: 409 if it runs or has ended.

    Needs the version that was read, in If-Match or `version`: 428 without it, 412 if the task has changed since.
    """
    services, caller = await authorise(request)
    number = task_id(task)
    async with services.database.tenant(caller.tenant_id) as connection:
        # Before the body is read: another tenant's task is not found, as an unknown one.
        known = existing(await known_task(connection, number, caller.tenant_id))
    await check_own(services, caller, [number])
    body = await read_json(request, EditRequest)
    version = _version(request, body, number)
    movable = Movable(known.shape, known.isolation, known.unplaceable_waits)
    change = await _checked(services, caller, body, movable)
    edited = await _edit(services, caller, number, change, version, checked_reason(body.reason, "/reason"))
    tell_edited(services.leadership, edited)
    return answer(await task_answer(services, caller, number))


def _version(request: Request, body: EditRequest, number: int) -> int:
    version = if_match(request)
    if version is not None:
        return version
    if body.version is UNSET:
        raise Problem(
            "version-required",
            status=428,
            title="The version is missing",
            detail=f"task {number} is edited with the version that was read: If-Match, or version in the body",
        )
    return body.version


async def _checked(services: Services, caller: Caller, body: EditRequest, task: Movable) -> Edit:
    faults = FaultList()
    change = edit_of(body, task, services.facts.of(caller), faults)
    # A pool or lane may have been made a moment ago.
    if not MAYBE_STALE.isdisjoint(fault.code for fault in faults.faults) and await services.facts.reread():
        faults = FaultList()
        change = edit_of(body, task, services.facts.of(caller), faults)
    faults.check()
    return change


async def _edit(services: Services, caller: Caller, number: int, change: Edit, version: int, reason: str) -> Edited:
    try:
        async with services.database.engine() as connection, connection.transaction():
            edited = await edits.edit_task(
                connection, number, caller.tenant_id, change, version=version, user=caller.user
            )
            if edited is not None:
                await _audited(connection, caller, "task.edit", number, edited.changes, reason)
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
            "version-changed",
            status=412,
            title="It has changed since",
            detail=f"task {number} has version {error.version} by now, not {version}; read it again",
            extra={"version": error.version},
        ) from None
    if edited is None:
        if number not in final:
            raise not_found()
        raise has_ended(number, final[number].label)
    return edited


async def _audited(
    connection: AnyConnection,
    caller: Caller,
    action: str,
    number: int,
    changes: Mapping[str, tuple[object, object]],
    reason: str,
) -> None:
    """In the transaction of the edit. One that changes nothing leaves no row."""
    if changes:
        before = {name: old for name, (old, _) in changes.items()}
        after = {name: new for name, (_, new) in changes.items()}
        await audit(connection, caller, action, number, before=before, after=after, reason=reason)


# ---- the cap -------------------------------------------------------------------------------------------------------


class ExtendRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one of both: longer `by` a duration, or to a new `cap`."""

    by: float | int | str | None = None
    cap: float | int | str | None = None
    reason: str = ""


@router.post("/{task}/extend")
@described(Extended, body=ExtendRequest)
async def extend_task(request: Request, task: str) -> Response:
    """Extends the cap of a running task, or sets that of a waiting one. A cap counts from the start of an attempt."""
    services, caller = await authorise(request)
    number = task_id(task)
    async with services.database.tenant(caller.tenant_id) as connection:
        if not await reading.known_tasks(connection, [number], caller.tenant_id):
            raise not_found()  # before the body is read: another tenant's task is not found, as an unknown one
    await check_own(services, caller, [number])
    body = await read_json(request, ExtendRequest)
    if (body.by is None) == (body.cap is None):
        raise invalid([Fault("", "invalid-value", "give exactly one of by and cap")])
    field = "by" if body.by is not None else "cap"
    reason = checked_reason(body.reason, "/reason")
    amount_ms = _milliseconds(field, body.by if body.by is not None else body.cap)
    longest_seconds = caller.plan.longest_cap_seconds
    try:
        async with services.database.engine() as connection, connection.transaction():
            changed = await change_cap(
                connection,
                number,
                caller.tenant_id,
                by_ms=amount_ms if field == "by" else None,
                to_ms=amount_ms if field == "cap" else None,
                longest_ms=longest_seconds * 1000,
                user=caller.user,
            )
            if changed is not None and changed.cap_ms != changed.cap_ms_before:
                caps = {"cap_seconds": (changed.cap_ms_before / 1000, changed.cap_ms / 1000)}
                await _audited(connection, caller, "task.extend", number, caps, reason)
            final = {} if changed else await cancel_and_rerun.final_states(connection, [number], caller.tenant_id)
    except CapTooLong as error:
        longest = duration_text(longest_seconds * 1000)
        why = f"the cap would be {duration_text(error.cap_ms)}; plan {caller.plan.name} allows at most {longest}"
        raise invalid([Fault(f"/{field}", "out-of-range", f"{why}, counted from the start")]) from None
    except CapTooShort as error:
        why = (
            f"task {number} runs with a cap of {duration_text(error.cap_ms)}; a running task's cap can only be extended"
        )
        raise invalid([Fault(f"/{field}", "out-of-range", why)]) from None
    if changed is None:
        if number in final:
            raise has_ended(number, final[number].label)
        raise not_found()
    if changed.state is State.RUNNING:
        services.leadership.recapped(changed.pool, [(number, changed.attempt, changed.cap_ms)])
    else:
        services.leadership.reordered(changed.pool, changed.tenant, number, changed.order)
    state = changed.state
    return answer(Extended(id=number, state=state.label, status=STATUS[state].value, cap_seconds=changed.cap_ms / 1000))


def _milliseconds(field: str, value: float | int | str | None) -> int:
    right = "it is a duration above 10ms, such as 3600, 90s or 1h30m"
    try:
        amount = milliseconds_of(value if value is not None else "")
    except ValueError as error:
        raise invalid([Fault(f"/{field}", "invalid-duration", str(error))]) from None
    if not _SHORTEST_MS <= amount <= _LARGEST_MS:
        raise invalid([Fault(f"/{field}", "out-of-range", f"{right}, not {str(value)[:40]!r}")])
    return amount
