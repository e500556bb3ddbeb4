"""Keeps members to their own tasks, at tenants that do not let their members change each other's."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from rota.api.services import Services
from rota.model.errors import Problem
from rota.model.request.operation import OperationWhere
from rota.model.tenant import Caller
from rota.store.reading import read_users


async def check_own(services: Services, caller: Caller, ids: Sequence[int]) -> None:
    """Raises if a task, graph or array is another user's, and the caller may change only its own."""
    if not caller.own_only:
        return
    async with services.database.tenant(caller.tenant_id) as connection:
        users = await read_users(connection, ids, caller.tenant_id)
    for number in ids:
        user = users.get(number, caller.user)
        if user != caller.user:
            raise _others(caller, f"{number} is of {user}")


def own_where(caller: Caller, where: OperationWhere) -> OperationWhere:
    """The filter, of the caller's own tasks if it may change no others."""
    if not caller.own_only:
        return where
    if where.user is not None and where.user != caller.user:
        raise _others(caller, f"not those of {where.user[:60]}")
    return replace(where, user=caller.user)


def check_own_operation(caller: Caller, user: str) -> None:
    if caller.own_only and user != caller.user:
        raise _others(caller, f"this operation is of {user}")


def _others(caller: Caller, what: str) -> Problem:
    return Problem(
        "not-your-task",
        status=403,
        title="Forbidden",
        detail=f"members of {caller.tenant} change only their own tasks; {what}. An administrator of it may, "
        f"and may let all (rota tenant set {caller.tenant} --share-control on)",
    )
