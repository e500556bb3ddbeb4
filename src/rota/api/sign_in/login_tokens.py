"""The exchange of a login's code for a token: once, by the program that began the login.

Nobody is signed in here: the code proves that a user allowed it, and PKCE that the program is the one that asked. Who
sends a code for a second time is refused, and the token that it gave ends (RFC 6749, 4.1.2): one of the two is a thief.
"""

from __future__ import annotations

import asyncpg

from rota.admit.authenticate import hash_secret, make_token
from rota.admit.limits import check_number
from rota.api.answers import filled
from rota.api.origin import origin
from rota.api.services import Services
from rota.model.accounts import logins as rules
from rota.model.accounts.logins import Verdict
from rota.model.accounts.permissions import widest_role
from rota.model.answers.accounts import NewToken
from rota.model.audit import Entry, Outcome
from rota.model.errors import Problem, conflict
from rota.store import logins, tenants
from rota.store.accounts import FoundTenant, find_tenant
from rota.store.audit import record
from rota.store.database import AnyConnection
from rota.store.logins import Kind, LoginRow
from rota.store.principals import PrincipalRow, find_principal
from rota.store.tokens import Visible, read_tokens

_ALL = Visible(everything=True, tenant=None, owner=None)


async def exchange(services: Services, code: str, kind: Kind, verifier: str | None = None) -> NewToken:
    """The token; or a problem, whose slug says whether to ask again."""
    async with services.database.engine() as connection, connection.transaction():
        row = await logins.lock_login(connection, hash_secret(code), kind)
        verdict = rules.judged(None if row is None else row.standing, verifier)
        # What follows from a refusal is committed too, so the refusal is raised after the transaction.
        made = await _done(connection, verdict, row)
    if verdict in (Verdict.GOOD, Verdict.USED):  # a token was made or revoked; anybody may ask about the others
        services.authenticator.forget()
    if isinstance(made, Problem):
        raise made
    return made


async def _done(connection: AnyConnection, verdict: Verdict, row: LoginRow | None) -> NewToken | Problem:
    if row is None or verdict is Verdict.UNKNOWN:
        return _refused("invalid-grant", "this code is unknown or was ended; begin again with `rota login`")
    if verdict is Verdict.EXPIRED:
        why = "nobody allowed this login in time" if row.kind == "device" else "this code is older than a minute"
        return _refused("expired-token", f"{why}; begin again with `rota login`")
    if verdict is Verdict.USED:
        return await _used_again(connection, row)
    if verdict is Verdict.WRONG_VERIFIER:
        await logins.use_code(connection, row.id, None)
        await _audit(connection, row, "login.exchange", row.id, outcome="denied", reason="the verifier is wrong")
        why = "this code belongs to another program's login, and is good no more; begin again with `rota login`"
        return _refused("invalid-grant", why)
    if verdict is Verdict.DENIED:
        return _refused("access-denied", "the login was refused in the browser", status=403)
    if verdict is Verdict.GOOD:
        return await _token(connection, row)
    seconds = row.poll_seconds
    if verdict is Verdict.TOO_SOON:
        seconds = min(seconds + rules.SLOWER_SECONDS, rules.LONGEST_POLL_SECONDS)
    await logins.note_poll(connection, row.id, seconds)
    if verdict is Verdict.TOO_SOON:
        return _refused("slow-down", f"ask again in {seconds} seconds, not before", wait=seconds)
    return _refused("authorization-pending", "nobody has allowed or refused this login yet", wait=seconds)


def _refused(slug: str, detail: str, *, status: int = 400, wait: int | None = None) -> Problem:
    titles = {"authorization-pending": "Not decided yet", "slow-down": "Asked too often", "access-denied": "Forbidden"}
    return Problem(
        slug,
        status=status,
        title=titles.get(slug, "The code is not valid"),
        detail=detail,
        retry_after_seconds=wait,
    )


async def _used_again(connection: AnyConnection, row: LoginRow) -> Problem:
    detail = "this code was used before; "
    if row.token is None:
        return _refused("invalid-grant", detail + "begin again with `rota login`")
    await tenants.revoke_token(connection, row.token)
    why = "the code of its login was used for a second time"
    await _audit(connection, row, "token.revoke", row.token, outcome="done", reason=why)
    return _refused("invalid-grant", detail + "the token that it gave is revoked; begin again with `rota login`")


# ---- the token -----------------------------------------------------------------------------------------------------


async def _token(connection: AnyConnection, row: LoginRow) -> NewToken | Problem:
    owner = None if row.principal is None else await find_principal(connection, row.principal)
    tenant = await find_tenant(connection, row.asked.tenant or "")
    if owner is None or owner.disabled_at is not None or tenant is None:
        await logins.use_code(connection, row.id, None)
        return _refused("access-denied", "the account of who allowed this login is gone or disabled", status=403)
    name = row.asked.token_name
    old = await logins.revoke_named(connection, owner=owner.id, tenant_id=tenant.id, name=name)
    for number in old:
        why = f"replaced by login {row.id}"
        await _audit(connection, row, "token.revoke", number, outcome="done", reason=why, owner=owner, tenant=tenant)
    await check_number(connection, tenant.id, tenant.plan, "tokens")
    text, number = await _added(connection, row, owner, tenant)
    await logins.use_code(connection, row.id, number)
    [token] = await read_tokens(connection, _ALL, number=number)
    await _audit(
        connection,
        row,
        "token.add",
        f"{tenant.name}/{owner.name}/{name}",
        outcome="done",
        reason="rota login",
        owner=owner,
        tenant=tenant,
        after={"id": number, "expires_at": token.expires_at and token.expires_at.isoformat()},
    )
    replaces = old[-1] if old else None
    return filled(NewToken, token, token=text, role=token.role.value, replaces=replaces, old_ends_at=None)


async def _added(connection: AnyConnection, row: LoginRow, owner: PrincipalRow, tenant: FoundTenant) -> tuple[str, int]:
    made = make_token()
    try:
        number = await tenants.add_token(
            connection,
            public_id=made.public_id,
            secret_hash=made.secret_hash,
            tenant_id=tenant.id,
            user=owner.name,
            role=widest_role([binding.binding for binding in owner.bindings], tenant.id),
            expires=row.asked.lasts,
            owner=owner.id,
            name=row.asked.token_name,
            by=owner.name,
        )
    except asyncpg.UniqueViolationError:
        why = f"{owner.name} has another token {row.asked.token_name}; begin again with another --name"
        raise conflict("token-exists", why) from None
    return made.text, number


async def _audit(
    connection: AnyConnection,
    row: LoginRow,
    action: str,
    target: str | int,
    *,
    outcome: Outcome,
    reason: str,
    owner: PrincipalRow | None = None,
    tenant: FoundTenant | None = None,
    after: dict[str, object] | None = None,
) -> None:
    """By whoever sends the code. It is the user's own program, if the code was good."""
    if owner is None and row.principal is not None:
        owner = await find_principal(connection, row.principal)
    if tenant is None and row.asked.tenant is not None:
        tenant = await find_tenant(connection, row.asked.tenant)
    found = origin()
    is_users = outcome == "done" and owner is not None
    await record(
        connection,
        Entry(
            tenant=None if tenant is None else tenant.id,
            actor_kind="user" if is_users else "anonymous",
            actor=owner.name if owner is not None else "",
            credential=f"login {row.id}",
            via=found.via,
            action=action,
            object_kind=action.partition(".")[0],
            object_id=str(target),
            outcome=outcome,
            reason=reason,
            after=after,
            address=found.address,
            agent=found.agent,
            request_id=found.request_id,
            server=found.server,
        ),
    )
