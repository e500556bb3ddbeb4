"""The audit log of changes by operators and administrators, written on the connection of the change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from fastapi import Request

from rota.api.requests import existing
from rota.api.services import Services, authorise
from rota.model.tenant import Caller
from rota.store import tenants
from rota.store.database import AnyConnection

Paused = TypeVar("Paused")


async def audit(
    connection: AnyConnection,
    caller: Caller,
    action: str,
    target: str,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    reason: str = "",
    outcome: str = "done",
    tenant_id: int | None = None,
) -> None:
    await tenants.audit(connection, tenant=caller.tenant_id, user=caller.user, action=action, target=target)


async def audit_own(services: Services, caller: Caller, action: str, name: str | int) -> None:
    """Audits the change of something that belongs to the caller's tenant, after the change."""
    async with services.database.engine() as connection:
        await audit(connection, caller, action, f"{caller.tenant}/{name}")


async def pause_named(
    request: Request,
    what: str,
    name: str,
    store: Callable[[AnyConnection, str, bool], Awaitable[Paused | None]],
    paused: bool,
) -> tuple[Services, Paused]:
    """Pauses or resumes a pool or a tenant; `store` returns its new state, None if it does not exist."""
    services, caller = await authorise(request)
    async with services.database.engine() as connection:
        found = existing(await store(connection, name, paused), what)
        await audit(connection, caller, f"{what}.{'pause' if paused else 'resume'}", name)
    return services, found
