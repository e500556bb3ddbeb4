"""Tokens: what programs send. Made, listed, rotated and revoked by their owners and by administrators.

The text of a token is in one answer and nowhere else. What a request may ask for is in `token_requests.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg
import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.authenticate import make_token
from rota.admit.body import decode
from rota.admit.limits import check_number
from rota.api.answers import answer, filled
from rota.api.audited import audit
from rota.api.described import described, read_query
from rota.api.requests import SMALL_BODY, check_scope, digits, existing, read_body
from rota.api.routes.accounts import managing, token_requests
from rota.api.routes.accounts.token_requests import DEFAULT_LIFE, Expiry, RotateRequest, TokenRequest
from rota.api.services import authorise
from rota.model.accounts.granting import may_act_for
from rota.model.accounts.permissions import Role, Scope, bindings_of_role, rights, widest_role
from rota.model.accounts.restrictions import Restrictions
from rota.model.answers.accounts import NewToken, TokenDocument, TokenList
from rota.model.errors import FaultList, conflict, not_found
from rota.model.tenant import Caller
from rota.store import tenants, tokens
from rota.store.accounts import FoundTenant, find_tenant
from rota.store.catalogue import read_pools
from rota.store.database import AnyConnection
from rota.store.principals import PrincipalRow, find_principal, find_service, find_user
from rota.store.tenants import FoundToken, TokenRow
from rota.store.tokens import Visible

router = APIRouter(prefix="/v1/tokens", tags=["accounts"])


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A token that may be made."""

    tenant: FoundTenant
    user: str
    role: Role
    owner: PrincipalRow | None
    expires: Expiry


@router.post("", status_code=201)
@described(NewToken, body=TokenRequest)
async def add_token(request: Request) -> Response:
    """Makes a token. Its text is in this answer only. It can never do more than its owner can at that moment.

    In a browser it asks for a sign-in within the last 15 minutes.
    """
    services, caller = await authorise(request)
    managing.check_proved(caller)
    body = decode(await read_body(request, limit=SMALL_BODY), TokenRequest)
    faults = FaultList()
    token_requests.check_token_name(body.name, faults)
    scopes = token_requests.scopes_of(body, caller, faults)
    async with services.database.engine() as connection, connection.transaction():
        pools = {pool.name for pool in await read_pools(connection)} if body.pools else set()
        limits = token_requests.restrictions_of(body, caller, pools, faults)
        if body.user is not None or body.role is not None:
            wanted = await _ownerless(connection, caller, body, faults)
        else:
            wanted = await _owned(connection, caller, body, faults)
        token_requests.check_held(caller, scopes)
        token_requests.check_narrow(caller, limits)
        await check_number(connection, wanted.tenant.id, wanted.tenant.plan, "tokens")
        made = await _added(connection, caller, body, wanted, scopes, limits)
    return answer(made, 201)


async def _added(
    connection: AnyConnection,
    caller: Caller,
    body: TokenRequest,
    wanted: _Wanted,
    scopes: list[str] | None,
    limits: Restrictions,
) -> NewToken:
    token = make_token()
    try:
        async with connection.transaction():
            number = await tenants.add_token(
                connection,
                public_id=token.public_id,
                secret_hash=token.secret_hash,
                tenant_id=wanted.tenant.id,
                user=wanted.user,
                role=wanted.role,
                expires=wanted.expires,
                owner=None if wanted.owner is None else wanted.owner.id,
                name=body.name,
                scopes=scopes,
                restrictions=limits,
                by=caller.user,
            )
    except asyncpg.UniqueViolationError:
        why = f"{wanted.user} has a token {body.name} already; rotate it (rota token rotate {body.name}), or revoke it"
        raise conflict("token-exists", why) from None
    [row] = await tokens.read_tokens(connection, _ALL, number=number)
    await audit(connection, caller, "token.add", _target(row), after=_facts(row), tenant_id=row.tenant_id)
    return filled(NewToken, row, token=token.text, role=row.role.value, replaces=None, old_ends_at=None)


async def _ownerless(connection: AnyConnection, caller: Caller, body: TokenRequest, faults: FaultList) -> _Wanted:
    """A token with the rights of a role, whatever becomes of its user: for administrators everywhere."""
    check_scope(caller, Scope.ADMIN)
    role, user = body.role or Role.MEMBER.value, body.user or ""
    if role not in set(Role):
        faults.add("role", "out-of-range", f"{role[:40]!r} is not a role; there are {', '.join(Role)}")
    managing.check_name(user, "user", faults)
    if body.owner is not None or body.service_account is not None:
        faults.add("owner", "out-of-range", "a token with a user and a role has no owner; name one or the other")
    expires = token_requests.expiry_of(body.expires, faults)
    found = None if body.tenant is None else await find_tenant(connection, body.tenant)
    if found is None:
        faults.add("tenant", "unknown-tenant", f"there is no tenant {(body.tenant or '')[:40]!r}")
    faults.check()
    assert found is not None, "else there is a fault"
    if Role(role) is not Role.WORKER:
        held = rights(bindings_of_role(Role(role), found.id), found.id, support=False).scopes
        token_requests.check_held(caller, sorted(held))
    return _Wanted(found, user, Role(role), None, expires)


async def _owned(connection: AnyConnection, caller: Caller, body: TokenRequest, faults: FaultList) -> _Wanted:
    """A token of the caller, of a service account of its tenant, or, by an administrator everywhere, of any user."""
    found = await find_tenant(connection, caller.tenant)
    if body.tenant is not None and body.tenant != caller.tenant:
        found = await find_tenant(connection, body.tenant) if caller.may_everywhere(Scope.USERS_WRITE) else None
        if found is None:
            faults.add("tenant", "unknown-tenant", f"there is no tenant {body.tenant[:40]!r}")
    if body.owner is not None and body.service_account is not None:
        faults.add("owner", "out-of-range", "a token has one owner: a user or a service account")
    expires = token_requests.life_of(body.expires, caller, faults, usual=DEFAULT_LIFE)
    faults.check()
    tenant = existing(found, "tenant")
    owner = await _owner(connection, caller, body, tenant, faults)
    role = widest_role([row.binding for row in owner.bindings], tenant.id)
    return _Wanted(tenant, owner.name, role, owner, expires)


async def _owner(
    connection: AnyConnection, caller: Caller, body: TokenRequest, tenant: FoundTenant, faults: FaultList
) -> PrincipalRow:
    owner = None
    if body.service_account is not None:
        owner = await find_service(connection, body.service_account, tenant.id)
        if owner is None or not (caller.may(Scope.USERS_WRITE) or owner.id == caller.principal_id):
            name = body.service_account[:60]
            faults.add("service_account", "unknown-account", f"{tenant.name} has no service account {name!r}")
    elif body.owner is not None:
        owner = await find_user(connection, body.owner)
        if owner is None or not (caller.may_everywhere(Scope.USERS_WRITE) or owner.id == caller.principal_id):
            why = "; only administrators everywhere make tokens for other users"
            faults.add("owner", "unknown-account", f"there is no user {body.owner[:60]!r} that you may act for{why}")
    elif caller.principal_id is None:
        why = "this token has no owner who could own another; name service_account, owner, or user and role"
        faults.add("owner", "missing-field", why)
    else:
        owner = await find_principal(connection, caller.principal_id)
    faults.check()
    found = existing(owner, "account")
    if found.id != caller.principal_id:
        managing.check_acts_for(caller, found)
    return found


# ---- reading --------------------------------------------------------------------------------------------------------

_ALL = Visible(everything=True, tenant=None, owner=None)


def _visible(caller: Caller) -> Visible:
    """All to administrators everywhere, those of the tenant to its administrators, and to each one's own."""
    return Visible(
        everything=managing.sees_all(caller),
        tenant=caller.tenant_id if caller.may(Scope.USERS_READ) else None,
        owner=caller.principal_id,
    )


@router.get("")
@described(TokenList)
async def list_tokens(request: Request) -> Response:
    """Your own tokens, without their text; to administrators, those of their tenant or of all."""
    services, caller = await authorise(request)
    read_query(request)
    async with services.database.engine() as connection:
        rows = await tokens.read_tokens(connection, _visible(caller))
    return answer(TokenList(tokens=[_document(row) for row in rows]))


@router.get("/{token}")
@described(TokenDocument)
async def get_token(request: Request, token: str) -> Response:
    """One token, by its id or its name, without its text."""
    services, caller = await authorise(request)
    read_query(request)
    async with services.database.engine() as connection:
        return answer(_document(await _found(connection, caller, token)))


async def _found(connection: AnyConnection, caller: Caller, text: str) -> TokenRow:
    """By id; or by name, of those that hold: one's own first."""
    visible = _visible(caller)
    number = digits(text, 10)
    if number is not None:
        rows = await tokens.read_tokens(connection, visible, number=number) if number < 2**31 else []
        return existing(rows[0] if rows else None, "token")
    rows = await tokens.read_tokens(connection, visible, name=text)
    current = [row for row in rows if row.revoked_at is None and row.replaced_by is None] or rows
    own = [row for row in current if row.owner is not None and row.owner == caller.principal_id] or current
    if len(own) > 1:
        shown = ", ".join(f"{row.id} ({row.tenant}, {row.user})" for row in own[:5])
        raise conflict("ambiguous-name", f"several tokens are named {text[:60]}: {shown}; give the id instead")
    return existing(own[0] if own else None, "token")


# ---- changing -------------------------------------------------------------------------------------------------------


@router.delete("/{token}", status_code=204)
@described(None)
async def revoke_token(request: Request, token: str) -> Response:
    """Revokes a token, by its id or its name: within two seconds no server node takes it."""
    services, caller = await authorise(request)
    async with services.database.engine() as connection, connection.transaction():
        found = await _found(connection, caller, token)
        if not _is_own(caller, found):
            await _check_acts_for_owner(connection, caller, found)
        if not await tenants.revoke_token(connection, found.id):
            raise not_found("token")
        await audit(connection, caller, "token.revoke", _target(found), before=_facts(found), tenant_id=found.tenant_id)
    services.authenticator.forget()
    return Response(status_code=204)


@router.post("/{token}/rotate", status_code=201)
@described(NewToken, body=RotateRequest)
async def rotate_token(request: Request, token: str) -> Response:
    """Makes a new text for a token, with the same rights. The old one ends after `overlap`, by default a day.

    In a browser it asks for a sign-in within the last 15 minutes. A token rotates itself only with the scope
    tokens:write.
    """
    services, caller = await authorise(request)
    managing.check_proved(caller)
    raw = await read_body(request, limit=SMALL_BODY)
    body = decode(raw, RotateRequest) if raw else RotateRequest()
    faults = FaultList()
    overlap = token_requests.overlap_of(body.overlap, faults)
    made = make_token()
    async with services.database.engine() as connection, connection.transaction():
        old = await _found(connection, caller, token)
        held = await tenants.find_token(connection, old.public_id)
        if held is None:
            raise conflict("token-ended", f"token {old.id} is revoked or has expired; make a new one")
        _check_covers(caller, held)
        expires = _new_life(caller, old, body, faults)
        faults.check()
        number = await tokens.rotate_token(
            connection,
            old.id,
            public_id=made.public_id,
            secret_hash=made.secret_hash,
            expires=expires,
            overlap=overlap,
            by=caller.user,
        )
        if number is None:
            why = f"token {old.id} was rotated before, into {old.replaced_by}; rotate that one"
            raise conflict("token-replaced", why)
        [before] = await tokens.read_tokens(connection, _ALL, number=old.id)
        [row] = await tokens.read_tokens(connection, _ALL, number=number)
        await audit(
            connection,
            caller,
            "token.rotate",
            _target(row),
            before=_facts(old),
            after=_facts(row),
            tenant_id=row.tenant_id,
        )
    services.authenticator.forget()
    rotated = filled(
        NewToken, row, token=made.text, role=row.role.value, replaces=old.id, old_ends_at=before.expires_at
    )
    return answer(rotated, 201)


def _new_life(caller: Caller, old: TokenRow, body: RotateRequest, faults: FaultList) -> Expiry:
    """As long as the first, counted from now."""
    usual = None if old.expires_at is None else old.expires_at - old.created_at
    if old.id == caller.token_id:
        caller = token_requests.as_itself(caller)
    return token_requests.life_of(body.expires, caller, faults, usual=usual)


def _is_own(caller: Caller, token: TokenRow) -> bool:
    return token.id == caller.token_id or (token.owner is not None and token.owner == caller.principal_id)


async def _check_acts_for_owner(connection: AnyConnection, caller: Caller, token: TokenRow) -> None:
    """Raises if the token's owner, or its role if nobody owns it, may do what the caller may not."""
    if token.owner is not None:
        managing.check_acts_for(caller, existing(await find_principal(connection, token.owner), "token"))
    elif not _may_give(caller, token):
        raise managing.beyond(f"token {token.id} has the role {token.role.value}, which you may not give or take")


def _may_give(caller: Caller, token: TokenRow) -> bool:
    if token.role is Role.WORKER:
        return caller.may_everywhere(Scope.ADMIN)
    return may_act_for(caller, bindings_of_role(token.role, token.tenant_id))


def _check_covers(caller: Caller, held: FoundToken) -> None:
    """Who rotates a token holds its new text: it must have no right that the caller has not."""
    token = held.row
    if token.id == caller.token_id:
        return
    if not _is_own(caller, token):
        covered = _may_give(caller, token) if token.owner is None else may_act_for(caller, held.bindings)
        if not covered:
            raise managing.beyond(f"token {token.id} of {token.user} may do what you may not; its owner can rotate it")
    if caller.token_id:
        own = rights(held.bindings, token.tenant_id, support=held.support).within(token.scopes)
        token_requests.check_held(caller, sorted(own.scopes - {Scope.WORK}))
        token_requests.check_narrow(caller, token.restrictions)


def _target(token: TokenRow) -> str:
    """As the audit log names a token: by what people call it."""
    return f"{token.tenant}/{token.user}/{token.name or token.id}"


def _facts(token: TokenRow) -> dict[str, object]:
    """What the audit log keeps of a token: never its text or hash."""
    kept = ("id", "owner", "name", "scopes", "pools", "names", "own", "addresses", "expires_at")
    document = _document(token)
    return msgspec.to_builtins({name: getattr(document, name) for name in kept})  # type: ignore[no-any-return]


def _document(row: TokenRow) -> TokenDocument:
    limits = row.restrictions
    return filled(
        TokenDocument,
        row,
        role=row.role.value,
        owner=None if row.owner is None else row.user,
        scopes=None if row.scopes is None else list(row.scopes),
        pools=list(limits.pools),
        names=list(limits.names),
        own=limits.own,
        addresses=[str(network) for network in limits.networks],
    )
