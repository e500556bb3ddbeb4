"""Service accounts: what programs are. Each belongs to a tenant, has roles, and owns tokens."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, filled
from rota.api.described import LIMIT, described, read_query
from rota.api.requests import limit_of, read_json
from rota.api.routes.accounts import managing
from rota.api.routes.accounts.managing import AFTER, OF_ROLE, RoleRequest, role_asked
from rota.api.services import authorise
from rota.model.answers.accounts import ServiceAccountDocument, ServiceAccountList
from rota.model.errors import FaultList, conflict
from rota.model.tenant import Caller
from rota.store.principals import PrincipalRow, add_principal, name_taken, read_principals

router = APIRouter(prefix="/v1/service-accounts", tags=["accounts"])


class ServiceAccountRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A service account of the tenant of the request, and its first role."""

    name: str
    role: str | None = None
    tenant: str | None = None  # of the role
    pool: str | None = None


class ServiceAccountChange(msgspec.Struct, forbid_unknown_fields=True):
    disabled: bool


@router.get("")
@described(ServiceAccountList, query=(LIMIT, AFTER))
async def list_service_accounts(request: Request) -> Response:
    """The service accounts of the tenant, by name."""
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query)
    async with services.database.engine() as connection:
        rows = await read_principals(
            connection, "service", tenant_id=caller.tenant_id, after=managing.after_of(query), limit=limit + 1
        )
    following = rows[limit - 1].name if len(rows) > limit else None
    found = [_document(caller, row) for row in rows[:limit] if row.tenant_id == caller.tenant_id]
    return answer(ServiceAccountList(service_accounts=found, next=following))


@router.post("", status_code=201)
@described(ServiceAccountDocument, body=ServiceAccountRequest)
async def add_service_account(request: Request) -> Response:
    """Makes a service account of the tenant. It can do nothing before it has a role and a token."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    body = await read_json(request, ServiceAccountRequest)
    faults = FaultList()
    managing.check_name(body.name, "name", faults)
    if body.role is None and (body.tenant, body.pool) != (None, None):
        faults.add("role", "missing-field", f"name the role at {body.tenant or body.pool}")
    faults.check()
    async with managing.changing(services) as connection:
        asked = None if body.role is None else RoleRequest(body.role, body.tenant, body.pool)
        binding = None if asked is None else await managing.binding_of(connection, caller, asked)
        if await name_taken(connection, body.name, services=False):
            raise conflict("user-exists", f"there is a user {body.name}; tasks of both would look alike")
        made = await add_principal(
            connection, kind="service", name=body.name, tenant_id=caller.tenant_id, email=None, by=caller.user
        )
        if made is None:
            raise conflict(
                "service-account-exists",
                f"{caller.tenant} has a service account {body.name} already; choose another name",
            )
        await managing.audit_added(connection, caller, made)
        if asked is not None and binding is not None:
            made = await managing.give(connection, caller, made, asked, binding)
    return answer(_document(caller, made), 201)


@router.get("/{name}")
@described(ServiceAccountDocument)
async def get_service_account(request: Request, name: str) -> Response:
    """One service account of the tenant, by name."""
    services, caller = await authorise(request)
    read_query(request)
    async with services.database.engine() as connection:
        return answer(_document(caller, await managing.found_service(connection, caller, name)))


@router.patch("/{name}")
@described(ServiceAccountDocument, body=ServiceAccountChange)
async def change_service_account(request: Request, name: str) -> Response:
    """Disables a service account, so that its tokens do not count, or enables it again."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    change = await read_json(request, ServiceAccountChange)
    async with managing.changing(services) as connection:
        account = await managing.found_service(connection, caller, name)
        managing.check_acts_for(caller, account)
        account = await managing.set_disabled(connection, caller, account, change.disabled)
    return answer(_document(caller, account))


@router.delete("/{name}", status_code=204)
@described(None)
async def remove_service_account(request: Request, name: str) -> Response:
    """Removes a service account, with its roles and tokens. Its tasks stay."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    async with managing.changing(services) as connection:
        account = await managing.found_service(connection, caller, name)
        managing.check_acts_for(caller, account)
        await managing.remove(connection, caller, account)
    return Response(status_code=204)


@router.post("/{name}/bindings", status_code=201)
@described(ServiceAccountDocument, body=RoleRequest)
async def grant_service_account_role(request: Request, name: str) -> Response:
    """Gives a service account a role at a tenant, at a pool, or everywhere."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    asked = await read_json(request, RoleRequest)
    async with managing.changing(services) as connection:
        binding = await managing.binding_of(connection, caller, asked)
        account = await managing.found_service(connection, caller, name)
        account = await managing.give(connection, caller, account, asked, binding)
    return answer(_document(caller, account), 201)


@router.delete("/{name}/bindings")
@described(ServiceAccountDocument, query=OF_ROLE)
async def revoke_service_account_role(request: Request, name: str) -> Response:
    """Takes a role from a service account; its tokens lose it within two seconds, on all server nodes."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    asked = role_asked(read_query(request))
    async with managing.changing(services) as connection:
        binding = await managing.binding_of(connection, caller, asked)
        account = await managing.found_service(connection, caller, name)
        account = await managing.take(connection, caller, account, asked, binding)
    return answer(_document(caller, account))


def _document(caller: Caller, account: PrincipalRow) -> ServiceAccountDocument:
    return filled(ServiceAccountDocument, account, roles=managing.roles_of(caller, account))
