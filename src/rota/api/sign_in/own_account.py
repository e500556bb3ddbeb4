"""What users see of their own account."""

from __future__ import annotations

from dataclasses import dataclass

from rota.admit.authenticate import SESSION_IDLE
from rota.api.answers import filled
from rota.api.audited import audit
from rota.api.routes.accounts.managing import place_of
from rota.api.services import Services
from rota.model.answers.sign_in import SessionDocument
from rota.model.tenant import Caller
from rota.store.principals import find_principal
from rota.store.second_factors import count_recovery_codes
from rota.store.sessions import end_sessions, read_sessions
from rota.store.sign_in import Factors, find_factors


@dataclass(frozen=True, slots=True)
class OwnAccount:
    name: str
    email: str
    roles: tuple[str, ...]  # as people read them
    tenants: tuple[str, ...]  # that the session may look at
    has_password: bool
    second_factor: bool
    needs_second: bool
    recovery_codes_left: int
    sessions: tuple[SessionDocument, ...]


async def own_account(services: Services, caller: Caller) -> OwnAccount:
    assert caller.principal_id is not None, "a session is a user's"
    async with services.database.engine() as connection:
        user = await find_principal(connection, caller.principal_id)
        factors: Factors = await find_factors(connection, caller.principal_id)
        left = await count_recovery_codes(connection, caller.principal_id)
        rows = await read_sessions(connection, caller.principal_id, idle=SESSION_IDLE)
    assert user is not None, "a session ends with its user"
    return OwnAccount(
        name=user.name,
        email=user.email or "",
        roles=tuple(place_of(row) for row in user.bindings),
        tenants=tuple(sorted({row.tenant for row in user.bindings if row.tenant} | {caller.tenant})),
        has_password=factors.password is not None,
        second_factor=factors.second_factor,
        needs_second=factors.needs_second,
        recovery_codes_left=left,
        sessions=tuple(filled(SessionDocument, row, current=row.id == caller.session_id) for row in rows),
    )


async def end_own_sessions(services: Services, caller: Caller) -> int:
    """All but the caller's."""
    assert caller.principal_id is not None, "a session is a user's"
    async with services.database.engine() as connection, connection.transaction():
        ended = await end_sessions(connection, caller.principal_id, but=caller.session_id)
        await audit(connection, caller, "session.end-all", caller.user, count=len(ended))
    services.authenticator.forget()
    return len(ended)
