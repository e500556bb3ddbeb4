"""Who may see and change which account; the routes of users and service accounts share these rules.

Users are global: an administrator of a tenant sees those with a role at the tenant, and gives and takes roles there.
Whoever has more than that administrator is out of its hands. An administrator everywhere manages all.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from rota.api.answers import filled
from rota.api.audited import audit
from rota.api.described import TEXT, Parameter, one_of
from rota.api.requests import existing, text_of
from rota.api.services import Services
from rota.model.accounts.granting import binding_fault, may_act_for, may_grant
from rota.model.accounts.permissions import Binding, Reach, Role, Scope, scopes_at
from rota.model.answers.accounts import RoleDocument
from rota.model.errors import FaultList, Problem, conflict
from rota.model.tenant import Caller
from rota.store.accounts import find_tenant
from rota.store.catalogue import read_pools
from rota.store.database import AnyConnection
from rota.store.principals import (
    BindingRow,
    PrincipalRow,
    add_binding,
    administrators,
    disable_principal,
    find_principal,
    find_service,
    find_user,
    lock_accounts,
    remove_binding,
    remove_principal,
)
from rota.store.sessions import end_sessions

ROLES = tuple(role for role in Role if role is not Role.WORKER)
AFTER = Parameter("after", TEXT, "The `next` of the page before.")
OF_ROLE = (
    Parameter("role", one_of(*ROLES), "The role to take."),
    Parameter("tenant", TEXT, "At this tenant."),
    Parameter("pool", TEXT, "At this pool."),
)

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}\Z", re.ASCII)
_MAIL = re.compile(r"^[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,190}\Z")


class RoleRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A role at a tenant, at a pool, or everywhere if neither is named."""

    role: str
    tenant: str | None = None
    pool: str | None = None


def role_asked(query: Mapping[str, str]) -> RoleRequest:
    """The role that a request for taking it away names."""
    return RoleRequest(query.get("role", ""), text_of(query, "tenant"), text_of(query, "pool"))


def after_of(query: Mapping[str, str]) -> str:
    """The name after which a page begins."""
    return text_of(query, "after") or ""


def check_proved(caller: Caller) -> None:
    """A change of accounts or tokens in a browser asks for a password that was given a short time ago."""
    if caller.session_id and not caller.proved:
        raise Problem(
            "proof-needed",
            status=403,
            title="Forbidden",
            detail="you proved who you are more than 15 minutes ago: sign in again, then repeat this",
        )


def check_name(name: str, field: str, faults: FaultList) -> None:
    if not _NAME.match(name):
        faults.add(
            field,
            "invalid-name",
            f"{name[:40]!r} is not a name: 1 to 100 letters, digits or . _ @ + -, and a letter or digit first",
        )


def check_mail(mail: str | None, faults: FaultList) -> None:
    if mail is not None and not _MAIL.match(mail):
        faults.add("email", "invalid-address", f"{mail[:60]!r} is not a mail address; write ann@example.org")


# ---- finding --------------------------------------------------------------------------------------------------------


def sees_all(caller: Caller) -> bool:
    return caller.may_everywhere(Scope.USERS_READ)


async def found_user(connection: AnyConnection, caller: Caller, name: str) -> PrincipalRow:
    """The user of this name or mail address, if the caller may see it."""
    user = existing(await find_user(connection, name), "user")
    at_tenant = any(binding.tenant_id == caller.tenant_id for binding in user.bindings)
    return existing(user if at_tenant or sees_all(caller) else None, "user")


async def found_service(connection: AnyConnection, caller: Caller, name: str) -> PrincipalRow:
    """The service account of this name, of the tenant of the request."""
    return existing(await find_service(connection, name, caller.tenant_id), "service account")


def is_managed(caller: Caller, principal: PrincipalRow) -> bool:
    """Whether the caller may know more of it than its name and its roles at the caller's tenant."""
    return sees_all(caller) or may_act_for(caller, [row.binding for row in principal.bindings])


def roles_of(caller: Caller, principal: PrincipalRow) -> list[RoleDocument]:
    """Those of its roles that the caller may see: of a user, only those at the caller's own tenant."""
    everything = sees_all(caller) or principal.kind == "service"
    return [
        filled(RoleDocument, row, role=row.role.value)
        for row in principal.bindings
        if everything or row.tenant_id == caller.tenant_id
    ]


def summary(principal: PrincipalRow) -> dict[str, object]:
    """What the audit log keeps of a principal before and after a change."""
    return {
        "roles": [place_of(row) for row in principal.bindings],
        "email": principal.email,
        "disabled": principal.disabled_at is not None,
    }


def place_of(row: BindingRow) -> str:
    return role_text(row.role, row.tenant, row.pool)


def role_text(role: str, tenant: str | None, pool: str | None) -> str:
    """`member at acme`, as people read it."""
    return f"{role} {f'at {tenant}' if tenant else f'at pool {pool}' if pool else 'everywhere'}"


# ---- changing -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def changing(services: Services) -> AsyncIterator[AnyConnection]:
    """A transaction that changes accounts, one at a time: what it reads of roles holds until it ends."""
    async with services.database.engine() as connection, connection.transaction():
        await lock_accounts(connection)
        yield connection
    services.authenticator.forget()


def check_acts_for(caller: Caller, principal: PrincipalRow) -> None:
    """Raises if the principal has a role that the caller may not give or take."""
    if not may_act_for(caller, [row.binding for row in principal.bindings]):
        raise beyond(
            f"{principal.name} has roles that you may not take; ask an administrator everywhere, or take only its "
            f"role at your tenant"
        )


def beyond(detail: str) -> Problem:
    return Problem("beyond-your-rights", status=403, title="Forbidden", detail=detail)


async def binding_of(connection: AnyConnection, caller: Caller, asked: RoleRequest) -> Binding:
    """The role that a request names, if there is one like that and the caller may give and take it."""
    faults = FaultList()
    if asked.role not in ROLES:
        faults.add("role", "out-of-range", f"{asked.role[:40]!r} is not a role; there are {', '.join(ROLES)}")
    if asked.tenant is not None and asked.pool is not None:
        faults.add("pool", "out-of-range", "a role is at a tenant or at a pool, not at both")
    tenant = None
    if asked.tenant is not None:
        everywhere = caller.may_everywhere(Scope.USERS_WRITE)
        found = await find_tenant(connection, asked.tenant) if everywhere or asked.tenant == caller.tenant else None
        if found is None:
            faults.add("tenant", "unknown-tenant", f"there is no tenant {asked.tenant[:40]!r}")
        else:
            tenant = found.id
    if asked.pool is not None and asked.pool not in {pool.name for pool in await read_pools(connection)}:
        faults.add("pool", "unknown-pool", f"there is no pool {asked.pool[:40]!r}")
    faults.check()
    binding = Binding(role=Role(asked.role), tenant=tenant, pool=asked.pool)
    hint = "" if caller.may_everywhere(Scope.USERS_WRITE) else f"; your tenant is {caller.tenant}"
    fault = binding_fault(binding)
    if fault is not None:
        faults.add("role", "out-of-range", fault + hint)
        faults.check()
    if not may_grant(caller, binding):
        what = role_text(asked.role, asked.tenant, asked.pool)
        missing = sorted(scopes_at(binding) - caller.scopes)
        lacks = f", which has {missing[0]} and you have not" if missing else ""
        where = hint if binding.reach is Reach.EVERYWHERE else ""
        raise beyond(f"you may not give or take the role {what}{lacks}{where}")
    return binding


async def give(
    connection: AnyConnection, caller: Caller, principal: PrincipalRow, asked: RoleRequest, binding: Binding
) -> PrincipalRow:
    """In `changing`. A role that it has already is a conflict."""
    if not await add_binding(connection, principal.id, binding, by=caller.user):
        raise conflict("role-exists", f"{principal.name} is {_text(asked)} already")
    # Whoever gets more rights signs in anew: with a second factor if the role asks for one, and so that nobody who got
    # hold of an old session has them too.
    await end_sessions(connection, principal.id, but=caller.session_id or None)
    after = existing(await find_principal(connection, principal.id))
    await _audited(connection, caller, "grant", principal, after)
    return after


async def take(
    connection: AnyConnection, caller: Caller, principal: PrincipalRow, asked: RoleRequest, binding: Binding
) -> PrincipalRow:
    """In `changing`."""
    async with _keeping_an_administrator(connection):
        if not await remove_binding(connection, principal.id, binding):
            if any(row.binding == binding for row in principal.bindings):
                why = f"{principal.name} is {_text(asked)} by its groups at the sign-in provider; change them there"
                raise conflict("role-of-provider", why)
            raise Problem("not-found", status=404, title="Not found", detail=f"{principal.name} is not {_text(asked)}")
    after = existing(await find_principal(connection, principal.id))
    await _audited(connection, caller, "revoke", principal, after)
    return after


async def set_disabled(
    connection: AnyConnection, caller: Caller, principal: PrincipalRow, disabled: bool
) -> PrincipalRow:
    """In `changing`, after `check_acts_for`."""
    async with _keeping_an_administrator(connection):
        await disable_principal(connection, principal.id, disabled)
    after = existing(await find_principal(connection, principal.id))
    await _audited(connection, caller, "disable" if disabled else "enable", principal, after)
    return after


async def remove(connection: AnyConnection, caller: Caller, principal: PrincipalRow) -> None:
    """In `changing`, after `check_acts_for`. Its tokens and sessions go with it."""
    async with _keeping_an_administrator(connection):
        await remove_principal(connection, principal.id)
    await _audited(connection, caller, "remove", principal, None)


async def audit_added(connection: AnyConnection, caller: Caller, made: PrincipalRow) -> None:
    await _audited(connection, caller, "add", None, made)


async def _audited(
    connection: AnyConnection,
    caller: Caller,
    verb: str,
    before: PrincipalRow | None,
    after: PrincipalRow | None,
) -> None:
    principal = existing(after or before)
    what = "user" if principal.kind == "user" else "service-account"
    await audit(
        connection,
        caller,
        f"{what}.{verb}",
        principal.name,
        before=None if before is None else summary(before),
        after=None if after is None else summary(after),
    )


def _text(asked: RoleRequest) -> str:
    return role_text(asked.role, asked.tenant, asked.pool)


@asynccontextmanager
async def _keeping_an_administrator(connection: AnyConnection) -> AsyncIterator[None]:
    """Around a change in `changing`: it is undone if it would leave nobody who manages all accounts."""
    before = await administrators(connection)
    yield
    if before and not await administrators(connection):
        raise conflict(
            "last-administrator",
            "this is the last administrator everywhere: make another one first (rota user add NAME --role admin)",
        )
