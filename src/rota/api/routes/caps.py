"""A task's cap, changed after admission."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer
from rota.api.described import described
from rota.api.requests import read_json, task_id
from rota.api.services import authorise
from rota.model.answers.task_changes import Extended
from rota.model.errors import Fault, conflict, invalid, not_found
from rota.model.task import STATUS, State
from rota.model.tenant import Scope
from rota.model.units import duration_text, milliseconds_of
from rota.store import cancel_and_rerun, reading
from rota.store.caps import CapTooLong, CapTooShort, change_cap

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])

_SHORTEST_MS = 10
_LARGEST_MS = 10 * 366 * 86_400_000
_SMALL_BODY = 64 * 1024


class ExtendRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one: `by` so much longer, or to a `cap` of so much."""

    by: float | int | str | None = None
    cap: float | int | str | None = None


@router.post("/{task}/extend")
@described(Extended, body=ExtendRequest)
async def extend_task(request: Request, task: str) -> Response:
    """Extends the cap of a task that runs, or sets that of one that waits; counted from the start of an attempt."""
    services, caller = await authorise(request, Scope.WRITE)
    number = task_id(task)
    async with services.database.tenant(caller.tenant_id) as connection:
        if not await reading.known_tasks(connection, [number], caller.tenant_id):
            raise not_found()  # whatever the body says: others' tasks are as unknown as none
    wanted = await read_json(request, ExtendRequest, limit=_SMALL_BODY)
    if (wanted.by is None) == (wanted.cap is None):
        raise invalid([Fault("", "invalid-value", "give exactly one of by and cap")])
    field = "by" if wanted.by is not None else "cap"
    amount_ms = _milliseconds(field, wanted.by if wanted.by is not None else wanted.cap)
    longest_seconds = caller.plan.longest_cap_seconds
    try:
        async with services.database.engine() as connection:
            changed = await change_cap(
                connection, number, caller.tenant_id, by_ms=amount_ms if field == "by" else None,
                to_ms=amount_ms if field == "cap" else None, longest_ms=longest_seconds * 1000,
                user=caller.user,
            )  # fmt: skip
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
            raise conflict("already-terminal", f"task {number} has ended already: it is {final[number].label}")
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
        raise invalid([Fault(f"/{field}", "out-of-range", f"{str(value)[:40]!r} won't do: {right}")])
    return amount
