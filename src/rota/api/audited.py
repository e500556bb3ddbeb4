"""The audit log of changes by operators and administrators, written on the connection of the change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request

from rota.api.services import Services, authorise
from rota.model.errors import not_found
from rota.model.tenant import Caller, Scope
from rota.store import tenants
from rota.store.database import AnyConnection

Paused = TypeVar("Paused")


async def audit(connection: AnyConnection, caller: Caller, action: str, target: str) -> None:
    await tenants.audit(connection, tenant=caller.tenant_id, user=caller.user, action=action, target=target)


async def pause_named(
    request: Request,
    scope: Scope,
    what: str,
    name: str,
    store: Callable[[AnyConnection, str, bool], Awaitable[Paused | None]],
    paused: bool,
) -> tuple[Services, Paused]:
    """Pauses or resumes a pool or a tenant; `store` returns its new state, None if it does not exist."""
    services, caller = await authorise(request, scope)
    async with services.database.engine() as connection:
        found = await store(connection, name, paused)
        if found is None:
            raise not_found(what)
        await audit(connection, caller, f"{what}.{'pause' if paused else 'resume'}", name)
    return services, found
