"""Users: people who sign in. They are global, and have roles at tenants, at pools, or everywhere."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET, UnsetType

from rota.api.answers import answer, filled
from rota.api.audited import audit
from rota.api.described import LIMIT, described, read_query
from rota.api.requests import existing, limit_of, read_json
from rota.api.routes.accounts import managing
from rota.api.routes.accounts.managing import AFTER, OF_ROLE, RoleRequest, role_asked
from rota.api.services import authorise
from rota.model.accounts.permissions import Scope
from rota.model.answers.accounts import UserDocument, UserList
from rota.model.errors import FaultList, conflict
from rota.model.tenant import Caller
from rota.store.database import AnyConnection
from rota.store.principals import (
    PrincipalRow,
    add_principal,
    find_principal,
    find_user,
    name_taken,
    read_principals,
    set_email,
)

router = APIRouter(prefix="/v1/users", tags=["accounts"])


class UserRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A user, and its first role, which an administrator of a tenant must name."""

    name: str
    email: str | None = None
    role: str | None = None
    tenant: str | None = None
    pool: str | None = None


class UserChange(msgspec.Struct, forbid_unknown_fields=True):
    """Fields left out stay as they are."""

    email: str | UnsetType | None = UNSET
    disabled: bool | UnsetType = UNSET


@router.get("")
@described(UserList, query=(LIMIT, AFTER))
async def list_users(request: Request) -> Response:
    """Users by name: all, or for an administrator of a tenant those with a role there."""
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query)
    async with services.database.engine() as connection:
        tenant = None if managing.sees_all(caller) else caller.tenant_id
        rows = await read_principals(
            connection, "user", tenant_id=tenant, after=managing.after_of(query), limit=limit + 1
        )
    following = rows[limit - 1].name if len(rows) > limit else None
    return answer(UserList(users=[_document(caller, row) for row in rows[:limit]], next=following))


@router.post("", status_code=201)
@described(UserDocument, body=UserRequest)
async def add_user(request: Request) -> Response:
    """Makes a user, who can do nothing before it has a role and a way to sign in, or a token."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    body = await read_json(request, UserRequest)
    faults = FaultList()
    managing.check_name(body.name, "name", faults)
    managing.check_mail(body.email, faults)
    if body.role is None and (body.tenant, body.pool) != (None, None):
        faults.add("role", "missing-field", f"name the role at {body.tenant or body.pool}")
    elif body.role is None and not caller.may_everywhere(Scope.USERS_WRITE):
        faults.add("role", "missing-field", f"name a role of the user at your tenant {caller.tenant}")
    faults.check()
    if body.email is not None or "@" in body.name:
        _check_names_people(caller)
    async with managing.changing(services) as connection:
        asked = None if body.role is None else RoleRequest(body.role, body.tenant, body.pool)
        binding = None if asked is None else await managing.binding_of(connection, caller, asked)
        await _check_free(connection, body.name, "name")
        if body.email is not None:
            await _check_free(connection, body.email, "email")
        made = await add_principal(
            connection, kind="user", name=body.name, tenant_id=None, email=body.email, by=caller.user
        )
        user = existing(made, "user")
        await managing.audit_added(connection, caller, user)
        if asked is not None and binding is not None:
            user = await managing.give(connection, caller, user, asked, binding)
    return answer(_document(caller, user), 201)


def _check_names_people(caller: Caller) -> None:
    """A mail address says who somebody is: at a sign-in provider, and to those who give roles by it.

    An administrator of a tenant could otherwise take the address of somebody whom it does not manage.
    """
    if not caller.may_everywhere(Scope.USERS_WRITE):
        raise managing.beyond(
            "only an administrator everywhere sets mail addresses, and names like these; leave the address out"
        )


async def _check_free(connection: AnyConnection, text: str, field: str, *, but: int | None = None) -> None:
    """A name may not be another user's mail address either: roles are given by both."""
    if await name_taken(connection, text, services=field == "name", but=but):
        advice = f"; if it is a user, give it a role: rota user grant {text}" if field == "name" else ""
        raise conflict("user-exists", f"the name or mail address {text[:100]} is taken{advice}")


@router.get("/{name}")
@described(UserDocument)
async def get_user(request: Request, name: str) -> Response:
    """One user, by name or mail address."""
    services, caller = await authorise(request)
    read_query(request)
    async with services.database.engine() as connection:
        return answer(_document(caller, await managing.found_user(connection, caller, name)))


@router.patch("/{name}")
@described(UserDocument, body=UserChange)
async def change_user(request: Request, name: str) -> Response:
    """Changes the mail address of a user, disables it or enables it again. Disabled, nothing of it counts."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    change = await read_json(request, UserChange)
    faults = FaultList()
    managing.check_mail(change.email or None, faults)
    faults.check()
    if change.email is not UNSET:
        _check_names_people(caller)
    async with managing.changing(services) as connection:
        user = await managing.found_user(connection, caller, name)
        managing.check_acts_for(caller, user)
        if change.email is not UNSET:
            user = await _with_mail(connection, caller, user, change.email)
        if change.disabled is not UNSET:
            user = await managing.set_disabled(connection, caller, user, change.disabled)
    return answer(_document(caller, user))


async def _with_mail(connection: AnyConnection, caller: Caller, user: PrincipalRow, mail: str | None) -> PrincipalRow:
    if mail is not None:
        await _check_free(connection, mail, "email", but=user.id)
    if not await set_email(connection, user.id, mail or None):
        raise conflict("user-exists", "another account has this mail address")
    changed = existing(await find_principal(connection, user.id), "user")
    before, after = {"email": user.email}, {"email": changed.email}
    await audit(connection, caller, "user.set", user.name, before=before, after=after)
    return changed


@router.delete("/{name}", status_code=204)
@described(None)
async def remove_user(request: Request, name: str) -> Response:
    """Removes a user, with its roles, tokens and sessions. Its tasks stay."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    async with managing.changing(services) as connection:
        user = await managing.found_user(connection, caller, name)
        managing.check_acts_for(caller, user)
        await managing.remove(connection, caller, user)
    return Response(status_code=204)


@router.post("/{name}/bindings", status_code=201)
@described(UserDocument, body=RoleRequest)
async def grant_user_role(request: Request, name: str) -> Response:
    """Gives a user, by name or mail address, a role at a tenant, at a pool, or everywhere."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    asked = await read_json(request, RoleRequest)
    async with managing.changing(services) as connection:
        binding = await managing.binding_of(connection, caller, asked)
        # By its whole name, also a user that the caller does not see yet: so people come to a tenant.
        user = existing(await find_user(connection, name), "user")
        user = await managing.give(connection, caller, user, asked, binding)
    return answer(_document(caller, user), 201)


@router.delete("/{name}/bindings")
@described(UserDocument, query=OF_ROLE)
async def revoke_user_role(request: Request, name: str) -> Response:
    """Takes a role from a user; tokens and sessions lose it within two seconds, on all server nodes."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    asked = role_asked(read_query(request))
    async with managing.changing(services) as connection:
        binding = await managing.binding_of(connection, caller, asked)
        user = await managing.found_user(connection, caller, name)
        user = await managing.take(connection, caller, user, asked, binding)
    return answer(_document(caller, user))


def _document(caller: Caller, user: PrincipalRow) -> UserDocument:
    roles = managing.roles_of(caller, user)
    if managing.is_managed(caller, user):
        return filled(UserDocument, user, roles=roles)
    # A guest: what else there is to know is the business of those who manage it.
    return UserDocument(name=user.name, roles=roles, created_at=None)
