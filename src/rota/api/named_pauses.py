"""Pausing and resuming what operators name: pools and tenants. The row of the audit log is in the same transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request

from rota.api.audited import audit
from rota.api.requests import existing
from rota.api.services import Services, authorise
from rota.store.database import AnyConnection

Paused = TypeVar("Paused")


async def pause_named(
    request: Request,
    what: str,
    name: str,
    store: Callable[[AnyConnection, str, bool], Awaitable[Paused | None]],
    paused: bool,
) -> tuple[Services, Paused]:
    """Pauses or resumes a pool or a tenant; `store` returns its new state, None if it does not exist."""
    services, caller = await authorise(request)
    async with services.database.engine() as connection, connection.transaction():
        found = existing(await store(connection, name, paused), what)
        tenant_id = getattr(found, "id", None) if what == "tenant" else None
        await audit(
            connection,
            caller,
            f"{what}.{'pause' if paused else 'resume'}",
            name,
            after={"paused": paused},
            tenant_id=tenant_id,
        )
    return services, found
