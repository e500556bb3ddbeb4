"""Writes the audit log, on the connection of the change: both are there, or neither.

`audit` is for what a caller does, `audit_anonymous` for events without one. Where a request comes from is found here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from fastapi import Request

from rota.api.origin import origin
from rota.api.requests import existing
from rota.api.services import Services, authorise
from rota.model.audit import Entry, Outcome
from rota.model.tenant import Caller
from rota.store.audit import record
from rota.store.database import AnyConnection

Paused = TypeVar("Paused")

# What no tenant owns: only those who oversee the cluster see what happens to it.
_OF_CLUSTER = frozenset(
    {"node", "pool", "plan", "tier", "category", "lane", "retention", "sign-in-rules", "worker_key"}
)


async def audit(
    connection: AnyConnection,
    caller: Caller,
    action: str,
    target: str | int,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
    outcome: Outcome = "done",
    tenant_id: int | None = None,
    selection: Mapping[str, Any] | None = None,
    count: int | None = None,
) -> None:
    """`action`: `kind.verb`. `target`: the name or id of the object. `before`, `after`: what changed, as JSON values.

    `tenant_id`: whose affair it is, if it is not the caller's tenant's. `selection`, `count`: of a change of many.
    """
    await record(
        connection,
        entry_of(
            caller,
            action,
            target,
            before=before,
            after=after,
            reason=reason,
            outcome=outcome,
            tenant_id=tenant_id,
            selection=selection,
            count=count,
        ),
    )


def entry_of(
    caller: Caller,
    action: str,
    target: str | int,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
    outcome: Outcome = "done",
    tenant_id: int | None = None,
    selection: Mapping[str, Any] | None = None,
    count: int | None = None,
) -> Entry:
    """As `audit`, for statements that write the entry themselves."""
    kind = action.partition(".")[0]
    found = origin()
    is_task = caller.task is not None
    return Entry(
        tenant=tenant_id if tenant_id is not None else None if kind in _OF_CLUSTER else caller.tenant_id,
        actor_kind=caller.kind.value,
        actor=caller.credential if is_task else caller.user,
        credential=caller.credential,
        on_behalf_of=caller.user if is_task else "",
        via="ui" if caller.session_id and found.via == "api" else found.via,
        action=action,
        object_kind=kind,
        object_id=str(target),
        outcome=outcome,
        reason=reason,
        before=before,
        after=after,
        selection=selection,
        count=count,
        address=found.address,
        agent=found.agent,
        request_id=found.request_id,
        server=found.server,
    )


async def audit_anonymous(
    connection: AnyConnection,
    name: str,
    action: str,
    target: str | int,
    *,
    outcome: Outcome,
    reason: str = "",
    tenant_id: int | None = None,
) -> None:
    """An event without a caller, such as a failed sign-in. `name`: whom they say they are."""
    found = origin()
    await record(
        connection,
        Entry(
            tenant=tenant_id,
            actor_kind="anonymous",
            actor=name[:200],
            via=found.via,
            action=action,
            object_kind=action.partition(".")[0],
            object_id=str(target)[:200],
            outcome=outcome,
            reason=reason,
            address=found.address,
            agent=found.agent,
            request_id=found.request_id,
            server=found.server,
        ),
    )


async def audit_own(services: Services, caller: Caller, action: str, name: str | int) -> None:
    """Audits the change of something that belongs to the caller's tenant, after the change."""
    async with services.database.engine() as connection:
        await audit(connection, caller, action, name)


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
        await audit(connection, caller, f"{what}.{'pause' if paused else 'resume'}", name, tenant_id=tenant_id)
    return services, found
