"""From a name and a password to a session, with a second factor in between if there is one.

The order matters: limits first, then the work of Argon2id, which is the same whether or not there is such a user. Every
failure has one text. Nothing here logs what was typed.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import timedelta

from fastapi import Request, Response

from rota.admit.authenticate import hash_secret
from rota.admit.sign_in_limits import Attempt, TooMany
from rota.api.audited import audit_anonymous
from rota.api.services import Services
from rota.api.sign_in.devices import known_device, remember_device, signed_device
from rota.api.sign_in.second_factors import check_code, confirm_first_code, keyring_of
from rota.api.sign_in.sessions import start_session
from rota.model.accounts.oidc import password_allowed
from rota.model.accounts.permissions import Reach, Role
from rota.model.errors import Problem
from rota.store.database import AnyConnection
from rota.store.principals import PrincipalRow, find_principal, find_user
from rota.store.sessions import Via
from rota.store.sign_in import (
    NOBODY,
    Factors,
    Step,
    add_step,
    find_factors,
    find_step,
    rehash_password,
    remove_step,
)

STEP_LASTS = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Ticket:
    """The password was right; a code is still needed. `enrol`: first an app has to be set up."""

    text: str = field(repr=False)
    enrol: bool


@dataclass(frozen=True, slots=True)
class Entered:
    """A session began. `recovery_codes`: of a second factor that was just set up."""

    session: int
    recovery_codes: tuple[str, ...] = field(default=(), repr=False)


def sign_in_failed() -> Problem:
    """One answer for an unknown and a disabled user, one without a password, and a wrong password."""
    return Problem(
        "sign-in-failed", status=401, title="Not signed in", detail="the user name or the password is not right"
    )


async def sign_in(
    services: Services, request: Request, response: Response, *, name: str, password: str
) -> Entered | Ticket:
    if signed_device(services, request) is None:  # else whose browser it is must be found out first
        services.sign_in_limits.check_remembered(name, request.client.host if request.client else None)
    async with services.database.engine() as connection:
        user = await find_user(connection, name)
        factors = await find_factors(connection, NOBODY if user is None else user.id)  # the same work for all
    attempt = await _enter(services, request, name, user)
    compared = await services.passwords.compare(factors.password, password)
    if user is None or not compared.right or user.disabled_at is not None:
        await note_failure(services, name, user, attempt)
        raise sign_in_failed()
    if not may_use_password(services, user, factors):
        await note_failure(services, name, user, attempt, reason="single sign-on only")
        raise sign_in_failed()
    async with services.database.engine() as connection, connection.transaction():
        await services.sign_in_limits.proved(connection, attempt)
        if compared.better is not None and factors.password is not None:
            await rehash_password(connection, user.id, before=factors.password, after=compared.better)
        return await begin(
            services, request, response, connection, user.id, factors, attempt, via="password", name=name
        )


def may_use_password(services: Services, user: PrincipalRow, factors: Factors, *, by_link: bool = False) -> bool:
    """Whether the settings of single sign-on leave a password to this user."""
    administers_all = any(
        row.source == "local" and row.role is Role.ADMIN and row.binding.reach is Reach.EVERYWHERE
        for row in user.bindings
    )
    return password_allowed(
        services.settings.oidc,
        administers_all=administers_all,
        second_factor=factors.second_factor,
        by_link=by_link,
    )


async def begin(
    services: Services,
    request: Request,
    response: Response,
    connection: AnyConnection,
    principal: int,
    factors: Factors,
    attempt: Attempt | None,
    *,
    via: Via,
    name: str,
) -> Entered | Ticket:
    """After the first factor. In the caller's transaction."""
    if factors.second_factor or factors.needs_second:
        keyring_of(services)  # refuses clearly if no code could be checked here
        text = secrets.token_urlsafe(32)
        step = Step(principal, name, not factors.second_factor)
        await add_step(connection, step, secret_hash=hash_secret(text), lasts=STEP_LASTS)
        return Ticket(text, step.enrol)
    if attempt is not None:
        await services.sign_in_limits.succeeded(connection, attempt)
    number = await start_session(services, request, response, principal=principal, via=via, connection=connection)
    remember_device(services, request, response, principal)
    return Entered(number)


async def sign_in_with_code(
    services: Services, request: Request, response: Response, *, ticket: str, code: str
) -> Entered:
    """The second half: a code of the app, or a recovery code."""
    step = await step_of_ticket(services, ticket)
    user = await _user_of(services, step)
    attempt = await _enter(services, request, step.account, user)
    async with services.database.engine() as connection, connection.transaction():
        if step.enrol:
            codes = await confirm_first_code(services, connection, step.principal, code)
        else:
            codes = () if await check_code(services, connection, step.principal, code) else None
        if codes is not None:
            if not await remove_step(connection, hash_secret(ticket)):
                raise _step_over()
            await services.sign_in_limits.proved(connection, attempt)
            await services.sign_in_limits.succeeded(connection, attempt)
            number = await start_session(
                services, request, response, principal=step.principal, via="password", connection=connection
            )
            remember_device(services, request, response, step.principal)
            return Entered(number, codes)
    await note_failure(services, step.account, user, attempt, reason="wrong code")
    raise wrong_code()


def wrong_code() -> Problem:
    return Problem(
        "wrong-code",
        status=401,
        title="Not signed in",
        detail="this code is not right, or was used already; wait for the next one",
    )


async def step_of_ticket(services: Services, ticket: str) -> Step:
    async with services.database.engine() as connection:
        step = await find_step(connection, hash_secret(ticket))
    if step is None:
        raise _step_over()
    return step


def _step_over() -> Problem:
    return Problem(
        "sign-in-over",
        status=401,
        title="Not signed in",
        detail="this took longer than ten minutes: enter the user name and the password again",
    )


async def _user_of(services: Services, step: Step) -> PrincipalRow | None:
    async with services.database.engine() as connection:
        return await find_principal(connection, step.principal)


async def _enter(services: Services, request: Request, name: str, user: PrincipalRow | None) -> Attempt:
    """Lets the attempt through, or refuses it; a refusal is in the audit log once a minute."""
    device = known_device(services, request, None if user is None else user.id)
    try:
        return await services.sign_in_limits.enter(
            name, address=request.client.host if request.client else None, device=device
        )
    except TooMany as refusal:
        if refusal.newly and await services.sign_in_limits.may_log(f"refused {refusal.what}"):
            await _audit_failure(services, name, user, f"too many attempts ({refusal.what})", "denied")
        raise


async def note_failure(
    services: Services, name: str, user: PrincipalRow | None, attempt: Attempt, *, reason: str = "wrong password"
) -> None:
    """At most one row a minute for each account: an attack does not fill the disk."""
    if await services.sign_in_limits.may_log(attempt.account):
        await _audit_failure(services, name, user, reason if user is not None else "unknown user", "failed")


async def _audit_failure(services: Services, name: str, user: PrincipalRow | None, reason: str, outcome: str) -> None:
    tenants = [] if user is None else [row.tenant_id for row in user.bindings if row.tenant_id is not None]
    async with services.database.engine() as connection:
        await audit_anonymous(
            connection,
            name.replace("\0", ""),
            "session.start",
            "" if user is None else user.name,
            outcome="denied" if outcome == "denied" else "failed",
            reason=reason,
            tenant_id=next(iter(tenants), None),
        )
