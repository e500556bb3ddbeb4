"""Begins and ends sessions: the row, the cookie and the entry in the audit log, whatever the user proved itself with.

A session always gets a new secret here, never one that a browser brought along: nobody can lay a session of theirs
under somebody else's sign-in.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

from fastapi import Request, Response

from rota.admit.authenticate import hash_secret
from rota.api.origin import origin
from rota.api.services import Services
from rota.api.sign_in.cookies import SESSION_LASTS, session_secret, set_session
from rota.model.audit import Entry
from rota.model.errors import Problem
from rota.model.tenant import Caller
from rota.store.audit import record
from rota.store.database import AnyConnection
from rota.store.sessions import Via, add_session, end_session_of, note_sign_in
from rota.store.sessions import renew_session as store_new_secret

_MEANS: dict[Via, str] = {"password": "password", "oidc": "sign-in provider", "link": "link"}


async def start_session(
    services: Services,
    request: Request,
    response: Response,
    *,
    principal: int,
    via: Via,
    connection: AnyConnection,
    lasts: timedelta = SESSION_LASTS,
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
        lasts=lasts,
        address=where.address,
        agent=where.agent,
    )
    entry = entry_of_user(
        "session.start", number, user=name, session=number, tenant_id=tenant_id, reason=f"by {_MEANS[via]}"
    )
    await record(connection, entry)
    set_session(response, request, services.settings, secret)
    return number


async def end_old_session(services: Services, request: Request, connection: AnyConnection) -> int | None:
    """The session that the request's cookie names, whosever it is."""
    old = session_secret(request, services.settings)
    number = None if old is None else await end_session_of(connection, hash_secret(old))
    services.authenticator.forget()
    return number


async def renew_session(
    services: Services,
    request: Request,
    response: Response,
    caller: Caller,
    connection: AnyConnection,
    *,
    tenant_id: int | None = None,
) -> None:
    """The caller's session goes on with a new secret, whenever what it stands for changes."""
    secret = secrets.token_urlsafe(32)
    await store_new_secret(
        connection, caller.session_id, secret_hash=hash_secret(secret), tenant_id=tenant_id or caller.tenant_id
    )
    set_session(response, request, services.settings, secret)
    services.authenticator.forget()


def entry_of_user(
    action: str,
    target: str | int,
    *,
    user: str,
    tenant_id: int | None,
    session: int | None = None,
    reason: str = "",
) -> Entry:
    """What a user does who is about to sign in, and so is no caller yet."""
    found = origin()
    return Entry(
        tenant=tenant_id,
        actor_kind="user",
        actor=user,
        credential="" if session is None else f"session {session}",
        via="ui" if found.via == "api" else found.via,
        action=action,
        object_kind=action.partition(".")[0],
        object_id=str(target),
        reason=reason,
        address=found.address,
        agent=found.agent,
        request_id=found.request_id,
        server=found.server,
    )
