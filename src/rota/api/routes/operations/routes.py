"""Operations, one change of all that a filter selects: preview, start, list, read, follow, stop."""

from __future__ import annotations

import asyncio
from datetime import datetime

from fastapi import APIRouter, Request, Response
from msgspec import UNSET

from rota.admit.admission import MAYBE_STALE
from rota.admit.body import decode
from rota.admit.drafts import check_idempotency_key, hash_of
from rota.admit.edits import edit_of
from rota.admit.limits import check_limits
from rota.api.answers import answer
from rota.api.audited import audit
from rota.api.described import IDEMPOTENCY_KEY, PAGE, Parameter, described, one_of, read_query
from rota.api.own_tasks import check_own_operation, own_where
from rota.api.reasons import checked_reason
from rota.api.requests import SMALL_BODY, existing, limit_of, read_body, seconds_of, task_id, time_of
from rota.api.routes.operations.selecting import Selected, select
from rota.api.services import Services, authorise
from rota.model.answers.operations import OperationDocument, OperationPage, OperationPreview, Refusal
from rota.model.errors import Fault, FaultList, Problem, conflict, invalid
from rota.model.request.edit import Edit, EditRequest
from rota.model.request.operation import (
    OperationChanges,
    OperationRequest,
    OperationState,
    OperationWhere,
    Verb,
)
from rota.model.tenant import Caller
from rota.store import operations, selection
from rota.store.database import AnyConnection
from rota.store.operations import NewOperation, Operation
from rota.store.reading import NEWEST, database_now
from rota.store.selection import Count

router = APIRouter(prefix="/v1/operations", tags=["operations"])

MOST_WAIT_SECONDS = 30
MOST_COUNTED = 1_000_000
COUNT_SECONDS = 2.0
SHOWN = 20  # ids in a preview
MOST_RUNNING = 20  # operations of a tenant at once
_STATES = tuple(state.label for state in OperationState)


@router.post("", status_code=201)
@described(
    OperationDocument,
    also={200: (OperationPreview | OperationDocument, "A dry run; or the key was used before for the same operation.")},
    body=OperationRequest,
    headers=(IDEMPOTENCY_KEY,),
)
async def start_operation(request: Request) -> Response:
    """Starts one change of all tasks that the filter selects: cancel, hold, release, edit or retry them.

    `requeue` and `discard` take dead letters. The answer comes before the work: follow it with GET and `wait`.
    """
    services, caller = await authorise(request)
    body = await read_body(request, limit=SMALL_BODY)
    wanted = decode(body, OperationRequest)
    key = request.headers.get("idempotency-key")
    if key is not None:
        check_idempotency_key(key, "Idempotency-Key")
    verb = _checked_verb(wanted)
    only_counted = wanted.dry_run and wanted.changes is None  # so the new values need not be known yet
    edit, changes = (
        (None, {})
        if only_counted
        else await _checked_changes(services, caller, verb, wanted.changes or OperationChanges())
    )
    before = time_of(wanted.before, "before")
    key_hash = None if key is None else hash_of(key.encode())
    async with services.database.tenant(caller.tenant_id) as connection:
        earlier = None if key_hash is None else await operations.find_by_key(connection, caller.tenant_id, key_hash)
        if earlier is not None and not wanted.dry_run:
            return answer(_document(_same(earlier, body)), 200)
        now: datetime = await database_now(connection)
        until = now if before is None else min(now, before)
        where = own_where(caller, wanted.where or OperationWhere())
        selected = await select(connection, caller.tenant_id, verb, where, until=until)
        counted = await _counted(connection, caller, verb, selected)
        running = await operations.count_running(connection, caller.tenant_id, up_to=MOST_RUNNING)
    if wanted.dry_run:
        return answer(_preview(verb, counted, now), 200)
    if running >= MOST_RUNNING:
        raise _too_many()
    if verb.makes_tasks and counted.number:
        await check_limits(services.database, caller, counted.number)
    new = NewOperation(
        tenant=caller.tenant_id,
        user=caller.user,
        verb=verb,
        where=selected.asked,
        selection=selected.selection,
        changes=changes,
        edit=edit,
        counted=counted,
        key_hash=key_hash,
        body_hash=hash_of(body),
    )
    operation = await _insert(services, caller, new)
    if operation is None:  # another request with the same key was faster
        async with services.database.tenant(caller.tenant_id) as connection:
            earlier = await operations.find_by_key(connection, caller.tenant_id, hash_of((key or "").encode()))
        assert earlier is not None, "only this key can be in the way, and its row is committed"
        return answer(_document(_same(earlier, body)), 200)
    services.operations.started()
    return answer(_document(operation), 201)


def _checked_verb(wanted: OperationRequest) -> Verb:
    faults: list[Fault] = []
    if wanted.verb not in set(Verb):
        there = ", ".join(Verb)
        faults.append(Fault("/verb", "invalid-value", f"{wanted.verb[:40]!r} is not a verb; there are {there}"))
    filtered = wanted.where is not None and wanted.where != OperationWhere()
    if filtered == wanted.all:
        detail = "give a filter in where, or all=true" + (", not both" if filtered else "")
        faults.append(Fault("/where", "invalid-filter", detail))
    if faults:
        raise invalid(faults)
    return Verb(wanted.verb)


async def _checked_changes(
    services: Services, caller: Caller, verb: Verb, changes: OperationChanges
) -> tuple[Edit | None, dict[str, str | int | float]]:
    """The checked edit, and the changes as they are shown."""
    given = changes.given()
    faults = [
        Fault(f"/changes/{name}", "invalid-value", f"{verb.value} does not take {name!r}")
        for name in given
        if name != "reason" and verb is not Verb.EDIT
    ]
    if faults:
        raise invalid(faults)
    if changes.reason is not UNSET:
        given["reason"] = checked_reason(changes.reason, "/changes/reason")
    return (await _edit(services, caller, changes.edit()) if verb is Verb.EDIT else None), given


async def _edit(services: Services, caller: Caller, wanted: EditRequest) -> Edit:
    faults = FaultList("/changes")
    edit = edit_of(wanted, None, services.facts.of(caller), faults)
    # A pool or lane may have been made a moment ago.
    if not MAYBE_STALE.isdisjoint(fault.code for fault in faults.faults) and await services.facts.reread():
        faults = FaultList("/changes")
        edit = edit_of(wanted, None, services.facts.of(caller), faults)
    faults.check()
    return edit


async def _counted(connection: AnyConnection, caller: Caller, verb: Verb, selected: Selected) -> Count:
    return await selection.count(
        connection,
        caller.tenant_id,
        verb,
        selected.selection,
        most=MOST_COUNTED,
        seconds=COUNT_SECONDS,
        shown=SHOWN,
    )


async def _insert(services: Services, caller: Caller, new: NewOperation) -> Operation | None:
    async with services.database.engine() as connection, connection.transaction():
        operation = await operations.insert_operation(connection, new)
        if operation is not None:
            row = await audit(
                connection,
                caller,
                f"operation.{new.verb.value}",
                operation.id,
                reason=str(new.changes.get("reason", "")),
                after={name: value for name, value in new.changes.items() if name != "reason"} or None,
                selection=dict(new.where) or {"all": True},
                count=new.counted.number,
            )
            await operations.name_audit(connection, operation.id, row)
    return operation


def _same(earlier: tuple[Operation, bytes], body: bytes) -> Operation:
    operation, body_hash = earlier
    if body_hash == hash_of(body):
        return operation
    detail = f"the idempotency key was used for operation {operation.id}, which has another body; use a new key"
    raise Problem(
        "idempotency-key-reused",
        status=422,
        title="The idempotency key was used for another request",
        detail=detail,
        faults=(Fault("Idempotency-Key", "idempotency-key-reused", detail),),
    )


def _too_many() -> Problem:
    detail = f"at most {MOST_RUNNING} operations of a tenant run at once; wait for one to end, or stop one"
    extra: dict[str, object] = {"limit": "operations", "most": MOST_RUNNING}
    return Problem(
        "quota-exceeded", status=429, title="Limit exceeded", detail=detail, retry_after_seconds=5.0, extra=extra
    )


# ---- read and stop -------------------------------------------------------------------------------------------------


@router.get("")
@described(
    OperationPage,
    query=(Parameter("state", one_of(*_STATES), "In this state."), *PAGE),
)
async def list_operations(request: Request) -> Response:
    """The operations of the tenant, newest first. They are removed a week after their end."""
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query)
    before = services.cursors.read(query.get("cursor"), NEWEST)
    text = query.get("state")
    if text is not None and text not in _STATES:
        detail = f"{text[:40]!r} is not a state; there are {', '.join(_STATES)}"
        raise invalid([Fault("/state", "invalid-filter", detail)])
    state = None if text is None else OperationState[text.upper()]
    async with services.database.tenant(caller.tenant_id) as connection:
        found, following = await operations.list_operations(
            connection, caller.tenant_id, before=before, limit=limit, state=state
        )
    return answer(OperationPage(operations=[_document(one) for one in found], next=services.cursors.make(following)))


@router.get("/{operation}")
@described(
    OperationDocument,
    query=(
        Parameter(
            "wait",
            {"type": "number", "minimum": 0, "maximum": MOST_WAIT_SECONDS},
            "Answer when the operation has ended, or after so many seconds.",
        ),
    ),
)
async def get_operation(request: Request, operation: str) -> Response:
    """One operation, with its counts so far. With `wait`, answers when it has ended, or when the time is up."""
    services, caller = await authorise(request)
    seconds = seconds_of(read_query(request), "wait", most=MOST_WAIT_SECONDS)
    number = task_id(operation, "operation")
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while True:
        found = await _read(services, caller, number)
        left = until - clock()
        ends = found.state is not OperationState.RUNNING or left <= 0
        if ends or not await services.open_connections.answer(caller, services.operations.moved(left)):
            return answer(_document(found))


@router.post("/{operation}/stop")
@described(OperationDocument)
async def stop_operation(request: Request, operation: str) -> Response:
    """Stops an operation after its batch under way. What it has changed stays changed. Harmless if it is stopped."""
    services, caller = await authorise(request)
    number = task_id(operation, "operation")
    check_own_operation(caller, (await _read(services, caller, number)).user)
    async with services.database.engine() as connection, connection.transaction():
        if await operations.stop_operation(connection, number, caller.tenant_id):
            await audit(connection, caller, "operation.stop", number)
    found = await _read(services, caller, number)
    if found.state is not OperationState.STOPPED:
        raise conflict("already-terminal", f"operation {number} has ended already: it is {found.state.label}")
    return answer(_document(found))


async def _read(services: Services, caller: Caller, number: int) -> Operation:
    async with services.database.tenant(caller.tenant_id) as connection:
        return existing(await operations.read_operation(connection, number, caller.tenant_id), "operation")


def _preview(verb: Verb, counted: Count, now: datetime) -> OperationPreview:
    states = {state.label: number for state, number in sorted(counted.states.items())}
    return OperationPreview(
        verb=verb.value, count=counted.number, or_more=counted.or_more, states=states, ids=counted.newest, at=now
    )


def _document(operation: Operation) -> OperationDocument:
    return OperationDocument(
        id=operation.id,
        verb=operation.verb.value,
        state=operation.state.label,
        user=operation.user,
        where=dict(operation.where),
        changes=operation.changes,
        expected=operation.expected,
        or_more=operation.or_more,
        matched=operation.matched,
        changed=operation.changed,
        ended=operation.ended,
        refused=operation.refused,
        refusals=[
            Refusal(reason=reason, count=one.count, ids=list(one.ids)) for reason, one in operation.refusals.items()
        ],
        trouble=operation.trouble,
        created_at=operation.created_at,
        ended_at=operation.ended_at,
    )
