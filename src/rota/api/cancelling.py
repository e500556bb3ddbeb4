"""Cancels tasks for routes: each batch in one transaction with the row of the audit log that tells of it."""

from __future__ import annotations

from collections.abc import Mapping

from rota.api.audited import Change, audit_tasks
from rota.api.own_graph import Cancel
from rota.api.services import Services, tell_cancelled
from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.task_changes import CancelManyAnswer, RefusedTask
from rota.model.task import State
from rota.model.tenant import Caller
from rota.store import cancel_and_rerun


def cancel_for(change: Change, *, many: bool = False) -> Cancel:
    """Cancels tasks, each time in a transaction with the row that tells of it."""

    async def cancel(services: Services, caller: Caller, ids: list[int]) -> CancelManyAnswer:
        return await _cancel_many(services, caller, ids, change, many=many)

    return cancel


async def _cancel_many(
    services: Services, caller: Caller, ids: list[int], change: Change, *, many: bool
) -> CancelManyAnswer:
    why = cancel_and_rerun.cancelled_reason(caller.user, change.reason)
    async with services.database.engine() as connection:
        async with connection.transaction():
            cancelled = await cancel_and_rerun.cancel_tasks(connection, ids, caller.tenant_id, why)
            touched = {task for task, _ in cancelled.ended} | {task for task, _, _ in cancelled.stopping}
            await audit_tasks(connection, caller, change, sorted(touched), many=many)
        rest = [number for number in ids if number not in touched]
        live = await cancel_and_rerun.live_states(connection, rest, caller.tenant_id) if rest else {}
        final = await cancel_and_rerun.final_states(connection, rest, caller.tenant_id) if rest else {}
    tell_cancelled(services.leadership, services.waiting, cancelled)
    again = [task for task, state in live.items() if state is State.RUNNING]  # being stopped already
    return CancelManyAnswer(
        cancelled=sorted(task for task, _ in cancelled.ended),
        cancelling=sorted([task for task, _, _ in cancelled.stopping] + again),
        refused=[refused_ended(number, final) for number in rest if number not in again],
    )


def refused_ended(number: int, final: Mapping[int, State]) -> RefusedTask:
    """A task that has ended, or that does not exist."""
    if number in final:
        return RefusedTask(id=number, reason="ended", state=final[number].label)
    return RefusedTask(id=number, reason="unknown", state=LEFT_OUT)
