"""Begins and ends sessions: the row, the cookie and the entry in the audit log, whatever the user proved itself with.

A session always gets a new secret here, never one that a browser brought along: nobody can lay a session of theirs
under somebody else's sign-in.
"""

from __future__ import annotations

import secrets

from fastapi import Request, Response

from rota.admit.authenticate import hash_secret
from rota.api.cookies import SESSION_LASTS, session_secret, set_session
from rota.api.origin import origin
from rota.api.services import Services
from rota.model.audit import Entry
from rota.model.errors import Problem
from rota.store.audit import record
from rota.store.database import AnyConnection
from rota.store.sessions import Via, add_session, end_session_of, note_sign_in


async def start_session(
    services: Services,
    request: Request,
    response: Response,
    *,
    principal: int,
    via: Via,
    connection: AnyConnection,
) -> int:
    """In the caller's transaction. The response gets the cookie; the session of the request's old cookie ends."""
    noted = await note_sign_in(connection, principal)
    if noted is None:
        raise Problem("account-disabled", status=403, title="Forbidden", detail="this account is disabled")
    name, tenant_id = noted
    await end_old_session(services, request, connection)
    secret = secrets.token_urlsafe(32)
    where = origin()
    number = await add_session(
        connection,
        secret_hash=hash_secret(secret),
        principal=principal,
        tenant_id=tenant_id,
        via=via,
        lasts=SESSION_LASTS,
        address=where.address,
        agent=where.agent,
    )
    await record(connection, _entry("session.start", name, number, tenant_id=tenant_id, reason=via))
    set_session(response, request, services.settings, secret)
    return number


async def end_old_session(services: Services, request: Request, connection: AnyConnection) -> int | None:
    """The session that the request's cookie names, whosever it is."""
    old = session_secret(request, services.settings)
    number = None if old is None else await end_session_of(connection, hash_secret(old))
    services.authenticator.forget()
    return number


def _entry(action: str, user: str, number: int, *, tenant_id: int, reason: str = "") -> Entry:
    found = origin()
    return Entry(
        tenant=tenant_id,
        actor_kind="user",
        actor=user,
        credential=f"session {number}",
        via="ui" if found.via == "api" else found.via,
        action=action,
        object_kind="session",
        object_id=str(number),
        reason=reason,
        address=found.address,
        agent=found.agent,
        request_id=found.request_id,
        server=found.server,
    )
