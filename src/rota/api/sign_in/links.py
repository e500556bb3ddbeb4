"""Links that sign somebody in once: of the first administrator, and of invitations, which are also for lost passwords.

The code in a link is a secret. It is shown to whoever asked for the link, kept as a hash, and in no log: the server has
no access log, and pages tell nobody the address that they are at.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fastapi import Request, Response

from rota.admit.authenticate import hash_secret
from rota.api.audited import audit
from rota.api.requests import existing
from rota.api.routes.accounts.managing import check_name
from rota.api.services import Services
from rota.api.sign_in.cookies import own_address
from rota.api.sign_in.own_password import after_new_password, check_new_password
from rota.api.sign_in.sessions import entry_of_user
from rota.api.sign_in.signing_in import Entered, Ticket, begin, may_use_password
from rota.model.accounts.permissions import Binding, Role
from rota.model.errors import FaultList, Problem, conflict
from rota.model.sign_in.attempts import account_key
from rota.model.sign_in.password_rules import password_fault
from rota.model.tenant import Caller
from rota.store.audit import record
from rota.store.database import AnyConnection
from rota.store.principals import (
    PrincipalRow,
    add_binding,
    add_principal,
    find_principal,
    lock_accounts,
    name_taken,
)
from rota.store.sign_in import (
    NO_FACTORS,
    Factors,
    Link,
    add_link,
    end_links,
    find_factors,
    find_link,
    has_administrator,
    save_password,
    use_link,
)
from rota.store.sign_in_attempts import forget_failures

INVITATION_LASTS = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class Invitation:
    address: str = field(repr=False)
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Opened:
    """A link that may be used. `user` None: it makes the first administrator."""

    link: Link
    user: PrincipalRow | None
    factors: Factors


async def invite(
    services: Services, request: Request, connection: AnyConnection, caller: Caller, user: PrincipalRow
) -> Invitation:
    """In a transaction of the caller, who may act for the user. An older link of the user ends."""
    code = secrets.token_urlsafe(32)
    ends_at = await add_link(
        connection, secret_hash=hash_secret(code), principal=user.id, by=caller.user, lasts=INVITATION_LASTS
    )
    await audit(connection, caller, "user.invite", user.name)
    return Invitation(f"{own_address(request, services.settings)}/ui/invitation?code={code}", ends_at)


async def open_link(services: Services, code: str) -> Opened:
    async with services.database.engine() as connection:
        link = await find_link(connection, hash_secret(code))
        if link is None or (link.principal is None and await has_administrator(connection)):
            raise _over()
        if link.principal is None:
            return Opened(link, None, NO_FACTORS)
        user = existing(await find_principal(connection, link.principal), "user")
        return Opened(link, user, await find_factors(connection, link.principal))


async def accept_invitation(
    services: Services, request: Request, response: Response, *, code: str, password: str
) -> Entered | Ticket:
    """Sets the password and goes on as after signing in: with a second factor if there is one, or has to be one."""
    opened = await open_link(services, code)
    if opened.user is None:
        raise _over()
    user = opened.user
    if not may_use_password(services, user, opened.factors, by_link=True):
        raise Problem(
            "single-sign-on-only",
            status=403,
            title="Forbidden",
            detail="people sign in through the provider here; only administrators everywhere have passwords",
        )
    check_new_password(user, opened.factors, password, field="password")
    hashed = await services.passwords.hash(password)
    async with services.database.engine() as connection, connection.transaction():
        if not await use_link(connection, opened.link.id):
            raise _over()
        await save_password(connection, user.id, hashed)
        await after_new_password(connection, user.id)
        await forget_failures(connection, account_key(user.name))
        tenants = [row.tenant_id for row in user.bindings if row.tenant_id is not None]
        entry = entry_of_user(
            "user.set-password", user.name, user=user.name, tenant_id=next(iter(tenants), None), reason="by invitation"
        )
        await record(connection, entry)
        entered = await begin(
            services, request, response, connection, user.id, opened.factors, None, via="link", name=user.name
        )
    services.authenticator.forget()
    return entered


async def set_up(
    services: Services, request: Request, response: Response, *, code: str, name: str, password: str
) -> Entered | Ticket:
    """Makes the first administrator everywhere, if there is still none who can sign in."""
    opened = await open_link(services, code)
    if opened.user is not None:
        raise _over()
    faults = FaultList()
    check_name(name, "name", faults)
    if "@" in name:
        faults.add("name", "invalid-name", "write a name without @; a mail address can be added later")
    fault = password_fault(password, second_factor=False, names=[name])
    if fault is not None:
        faults.add("password", "weak-password", fault)
    faults.check()
    hashed = await services.passwords.hash(password)
    async with services.database.engine() as connection, connection.transaction():
        await lock_accounts(connection)
        if await has_administrator(connection) or not await use_link(connection, opened.link.id):
            raise _over()
        if await name_taken(connection, name, services=True):
            raise _taken(name)
        made = await add_principal(connection, kind="user", name=name, tenant_id=None, email=None, by="setup")
        user = existing(made, "user")
        await add_binding(connection, user.id, Binding(role=Role.ADMIN), by="setup")
        await save_password(connection, user.id, hashed)
        await end_links(connection, None)
        entry = entry_of_user("user.add", name, user=name, tenant_id=None, reason="first administrator, by setup link")
        await record(connection, entry)
        factors = await find_factors(connection, user.id)
        entered = await begin(
            services, request, response, connection, user.id, factors, None, via="link", name=user.name
        )
    services.authenticator.forget()
    return entered


def _taken(name: str) -> Problem:
    return conflict("user-exists", f"the name {name[:100]} is taken; take another one")


def _over() -> Problem:
    return Problem(
        "link-over",
        status=404,
        title="This link is over",
        detail="this link was used, is too old, or was replaced by a newer one; ask for a new one "
        "(an administrator: rota user invite NAME; for the first administrator: start rota up again)",
    )
