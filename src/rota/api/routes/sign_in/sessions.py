"""Sessions: users see and end their own; administrators those of the users whom they may act for."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.authenticate import SESSION_IDLE
from rota.api.answers import answer, filled
from rota.api.audited import audit
from rota.api.described import TEXT, Parameter, described, read_query
from rota.api.requests import existing, read_json, task_id, text_of
from rota.api.routes.accounts import managing
from rota.api.services import Services, authorise
from rota.api.sign_in.own_password import prove
from rota.api.sign_in.secret_body import Secretive, read_secretly
from rota.api.sign_in.sessions import renew_session
from rota.model.accounts.permissions import Scope, looks_into
from rota.model.answers.sign_in import SessionDocument, SessionList, SessionsEnded
from rota.model.errors import Problem, not_found
from rota.model.tenant import Caller
from rota.store.accounts import find_tenant
from rota.store.database import AnyConnection
from rota.store.principals import PrincipalRow, find_principal
from rota.store.sessions import end_sessions, read_sessions, session_owner

router = APIRouter(prefix="/v1/sessions", tags=["sign-in"])

_USER = Parameter("user", TEXT, "Of this user, by name or mail address; for administrators. Else your own.")


class ProofRequest(Secretive):
    """The user's own password, once more."""

    password: str


class SwitchRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The tenant to look at."""

    tenant: str


@router.get("")
@described(SessionList, query=(_USER,))
async def list_sessions(request: Request) -> Response:
    """Sessions that have not ended: when they began, when and from where they were last used."""
    services, caller = await authorise(request)
    query = read_query(request)
    async with services.database.engine() as connection:
        user = await _whose(connection, caller, text_of(query, "user"))
        return answer(SessionList(user=user.name, sessions=await sessions_of(connection, caller, user.id)))


async def sessions_of(connection: AnyConnection, caller: Caller, principal: int) -> list[SessionDocument]:
    rows = await read_sessions(connection, principal, idle=SESSION_IDLE)
    return [filled(SessionDocument, row, current=row.id == caller.session_id) for row in rows]


@router.delete("")
@described(SessionsEnded, query=(_USER,))
async def end_other_sessions(request: Request) -> Response:
    """Ends all sessions of a user but the one of this request: everywhere, within two seconds."""
    services, caller = await authorise(request)
    query = read_query(request)
    async with services.database.engine() as connection, connection.transaction():
        user = await _whose(connection, caller, text_of(query, "user"))
        ended = await end_others(connection, caller, user)
    services.authenticator.forget()
    return answer(SessionsEnded(ended=ended))


async def end_others(connection: AnyConnection, caller: Caller, user: PrincipalRow) -> int:
    ended = await end_sessions(connection, user.id, but=caller.session_id or None)
    await audit(connection, caller, "session.end-all", user.name, count=len(ended))
    return len(ended)


@router.delete("/{session}", status_code=204)
@described(None)
async def end_session(request: Request, session: str) -> Response:
    """Ends one session: on every server node within two seconds, with the streams that it opened."""
    services, caller = await authorise(request)
    number = task_id(session, "session")
    await end_one(services, caller, number)
    return Response(status_code=204)


async def end_one(services: Services, caller: Caller, number: int) -> None:
    async with services.database.engine() as connection, connection.transaction():
        owner = existing(await session_owner(connection, number), "session")
        if owner != caller.principal_id:
            if not caller.may(Scope.USERS_WRITE):
                raise not_found("session")
            user = existing(await find_principal(connection, owner), "session")
            if not managing.is_managed(caller, user):
                raise not_found("session")
            managing.check_acts_for(caller, user)
        await end_sessions(connection, owner, number=number)
        await audit(connection, caller, "session.end", number)
    services.authenticator.forget()


@router.post("/prove", status_code=204)
@described(None, body=ProofRequest)
async def prove_session(request: Request) -> Response:
    """For the next 15 minutes, the session may change accounts and tokens: the user gave the password again."""
    services, caller = await authorise(request)
    asked = await read_secretly(request, ProofRequest)
    await prove(services, request, caller, asked.password)
    return Response(status_code=204)


@router.post("/switch", status_code=204)
@described(None, body=SwitchRequest)
async def switch_session(request: Request) -> Response:
    """The session looks at another tenant where the user has a role, and gets a new secret."""
    services, caller = await authorise(request)
    asked = await read_json(request, SwitchRequest)
    response = Response(status_code=204)
    await switch(services, request, response, caller, asked.tenant)
    return response


async def switch(services: Services, request: Request, response: Response, caller: Caller, tenant: str) -> None:
    """A tenant that the user may not see and one that is not there look alike."""
    assert caller.principal_id is not None, "a session is a user's"
    async with services.database.engine() as connection, connection.transaction():
        user = existing(await find_principal(connection, caller.principal_id), "tenant")
        found = existing(await find_tenant(connection, tenant), "tenant")
        if not any(looks_into(row.binding, found.id) for row in user.bindings):
            raise not_found("tenant")
        await renew_session(services, request, response, caller, connection, tenant_id=found.id)
        await audit(connection, caller, "session.switch", caller.session_id, after={"tenant": found.name})


async def _whose(connection: AnyConnection, caller: Caller, name: str | None) -> PrincipalRow:
    """The caller, or the named user if the caller may act for it."""
    if name is None:
        if caller.principal_id is None:
            detail = "this token belongs to nobody, so it has no sessions; name a user (?user=ann, or --user ann)"
            raise Problem("no-account", status=403, title="Forbidden", detail=detail)
        return existing(await find_principal(connection, caller.principal_id), "user")
    user = await managing.found_user(connection, caller, name) if caller.may(Scope.USERS_READ) else None
    if user is None or (user.id != caller.principal_id and not managing.is_managed(caller, user)):
        raise not_found("user")
    if user.id != caller.principal_id:
        managing.check_acts_for(caller, user)
    return user
