"""What users do with their own password: prove who they are once more, and change it."""

from __future__ import annotations

from fastapi import Request, Response

from rota.api.audited import audit
from rota.api.services import Services
from rota.api.sign_in.devices import known_device
from rota.api.sign_in.sessions import renew_session
from rota.api.sign_in.signing_in import note_failure
from rota.model.errors import Fault, Problem, invalid
from rota.model.sign_in.password_rules import password_fault
from rota.model.tenant import Caller
from rota.store.database import AnyConnection
from rota.store.principals import PrincipalRow, find_principal
from rota.store.sessions import end_sessions, prove_session
from rota.store.sign_in import Factors, end_links, find_factors, remove_steps, save_password


async def prove(services: Services, request: Request, caller: Caller, password: str) -> None:
    """For the next 15 minutes the session may change accounts and tokens."""
    await _compare(services, request, caller, password, field="password")
    async with services.database.engine() as connection, connection.transaction():
        await prove_session(connection, caller.session_id)
        await audit(connection, caller, "session.prove", caller.session_id)
    services.authenticator.forget()


async def change_password(
    services: Services, request: Request, response: Response, caller: Caller, *, old: str, new: str
) -> int:
    """All other sessions of the user end; returns how many."""
    user, factors = await _compare(services, request, caller, old, field="old")
    check_new_password(user, factors, new, field="new")
    hashed = await services.passwords.hash(new)
    async with services.database.engine() as connection, connection.transaction():
        await save_password(connection, user.id, hashed)
        ended = await after_new_password(connection, user.id, but=caller.session_id)
        await renew_session(services, request, response, caller, connection)
        await prove_session(connection, caller.session_id)
        await audit(connection, caller, "user.set-password", user.name, after={"sessions_ended": ended})
    services.authenticator.forget()
    return ended


async def after_new_password(connection: AnyConnection, principal: int, *, but: int | None = None) -> int:
    """Whoever knew the old password is out, and so is whoever holds a link. Returns how many sessions ended."""
    await remove_steps(connection, principal)
    await end_links(connection, principal)
    return len(await end_sessions(connection, principal, but=but))


def check_new_password(user: PrincipalRow, factors: Factors, password: str, *, field: str) -> None:
    names = [user.name, user.email or "", *(row.tenant or "" for row in user.bindings)]
    fault = password_fault(password, second_factor=factors.second_factor or factors.needs_second, names=names)
    if fault is not None:
        raise invalid([Fault(f"/{field}", "weak-password", fault)])


async def _compare(
    services: Services, request: Request, caller: Caller, password: str, *, field: str
) -> tuple[PrincipalRow, Factors]:
    """The user, after its password was compared, within the limits for attempts."""
    assert caller.principal_id is not None, "a session is a user's"
    async with services.database.engine() as connection:
        user = await find_principal(connection, caller.principal_id)
        factors = await find_factors(connection, caller.principal_id)
    assert user is not None, "a session ends with its user"
    if factors.password is None:
        raise Problem(
            "no-password",
            status=403,
            title="Forbidden",
            detail="this account has no password: it signs in through a provider, or by an invitation "
            f"(rota user invite {user.name})",
        )
    address = request.client.host if request.client else None
    device = known_device(services, request, user.id)
    attempt = await services.sign_in_limits.enter(user.name, address=address, device=device)
    if not (await services.passwords.compare(factors.password, password)).right:
        await note_failure(services, user.name, user, attempt)
        detail = "this is not your password"
        raise Problem(
            "wrong-password",
            status=403,
            title="Forbidden",
            detail=detail,
            faults=(Fault(f"/{field}", "wrong-password", detail),),
        )
    async with services.database.engine() as connection:
        await services.sign_in_limits.proved(connection, attempt)
        await services.sign_in_limits.succeeded(connection, attempt)
    return user, factors
