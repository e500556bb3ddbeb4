"""Tokens: made once, shown once, stored as a hash. The `Authenticator` turns a token or a session into a `Caller`.

The key of a running task (`attempt_key.py`) is stored nowhere: its signature is checked, then whether its attempt
still runs. So is a node's token (`node_identity.py`): what is asked is whether the node still has that identity.

A token has the form `rota_<public id>_<secret>`. The public id finds the row, the secret is compared in constant time.
Look-ups are cached, so a revoked token, the end of an attempt or a changed plan holds on every node within
`REMEMBER_SECONDS`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rota.admit.token_use import TokenUse
from rota.attempt_key import PREFIX, AttemptKeys
from rota.model.accounts.permissions import (
    SCOPES,
    Binding,
    Reach,
    Rights,
    Role,
    changes_own_only,
    looks_into,
    rights,
    widest_role,
)
from rota.model.errors import Presented, Problem, Stranger, not_found
from rota.model.node import Identity
from rota.model.secret import names_in_spec
from rota.model.tenant import MEMBER_SCOPES, Caller, CallerKind, Plan, SubmittingTask
from rota.node_identity import TOKEN_PREFIX, NodeTokens
from rota.store.accounts import FoundTenant, find_session, find_tenant
from rota.store.database import AnyConnection, Database
from rota.store.node_keys import find_identity
from rota.store.sessions import see_session
from rota.store.tenants import find_attempt, find_token

REMEMBER_SECONDS = 1.5
MOST_REMEMBERED = 10_000
SESSION_IDLE = timedelta(hours=12)
PROOF_COUNTS = timedelta(minutes=15)  # for changes of accounts and tokens by a signed-in user
EXPIRES_SOON = timedelta(days=14)

_TOKEN = re.compile(r"^rota_([a-z0-9]{12})_([A-Za-z0-9_-]{43})\Z", re.ASCII)
_NO_PLAN = Plan(
    name="",
    tasks_per_hour=0,
    burst=0,
    waiting_tasks=0,
    running_cpu_milli=0,
    running_memory_bytes=0,
    longest_cap_seconds=0,
    tiers=(),
    weight=1,
)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class NewToken:
    text: str
    public_id: str
    secret_hash: bytes


def make_token() -> NewToken:
    public_id = "".join(secrets.choice(_ALPHABET) for _ in range(12))
    secret = secrets.token_urlsafe(32)
    return NewToken(f"rota_{public_id}_{secret}", public_id, hash_secret(secret))


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def unauthorized(presented: Presented | None = None) -> Problem:
    """One answer for a missing, malformed, unknown, revoked and expired token."""
    detail = "send a valid token: `Authorization: Bearer rota_…`"
    problem = Problem("unauthorized", status=401, title="Unauthorized", detail=detail)
    problem.denied = presented
    return problem


def key_is_over(task: int, attempt: int) -> Problem:
    detail = f"this is the key of attempt {attempt} of task {task}, which has ended or is being stopped"
    return Problem("unauthorized", status=401, title="Unauthorized", detail=detail)


class Authenticator:
    def __init__(self, database: Database, attempt_keys: AttemptKeys, node_tokens: NodeTokens | None = None) -> None:
        self._database = database
        self._attempt_keys = attempt_keys
        self._node_tokens = node_tokens
        self.token_use = TokenUse(database)
        self._remembered: dict[bytes, tuple[float, Caller]] = {}

    async def caller(
        self, authorization: str | None, *, tenant: str | None = None, address: str | None = None
    ) -> Caller:
        """The bearer of a token or a key. `tenant`: the one that the request is to, if it is not the token's own.

        `address`: where the request comes from.
        """
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise unauthorized()
        return await self._remember(f"token {text}{_to(tenant)}", lambda: self._look_up(text, tenant, address))

    async def session(self, secret: str, *, tenant: str | None = None) -> Caller:
        """The user of a session. `tenant`: the one that the request is to, if the session looks at another."""
        return await self._remember(f"session {secret}{_to(tenant)}", lambda: self._look_up_session(secret, tenant))

    async def _remember(self, what: str, look_up: Callable[[], Awaitable[Caller]]) -> Caller:
        remembered = self._remembered.get(digest := hashlib.sha256(what.encode(errors="replace")).digest())
        if remembered is not None and time.monotonic() < remembered[0]:
            return remembered[1]
        known = self._remembered  # a new one if a change is made during the look-up
        caller = await look_up()
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        known[digest] = (time.monotonic() + REMEMBER_SECONDS, caller)
        return caller

    def forget(self) -> None:
        """Accounts, tokens, tenants or plans were changed through this node: the next requests see them as they are."""
        self._remembered = {}

    async def _look_up(self, text: str, tenant: str | None, address: str | None) -> Caller:
        if text.startswith(PREFIX):
            return await self._look_up_attempt(text)
        if text.startswith(TOKEN_PREFIX):
            return await self._look_up_node(text)
        match = _TOKEN.match(text.strip())
        if match is None:
            raise unauthorized()
        async with self._database.engine() as connection:
            found = await find_token(connection, match[1])
            if found is None or not hmac.compare_digest(found.secret_hash, hash_secret(match[2])):
                raise unauthorized(Presented("token", hash_secret(match[2]), match[1]))
            token = found.row
            own = FoundTenant(
                token.tenant_id, token.tenant, found.plan, found.trusted, found.support, found.share_control
            )
            kind = CallerKind.USER if found.is_users else CallerKind.SERVICE
            who = Stranger(kind.value, token.user, f"token {token.name or token.id}", own.id, tenant or "")
            to = await _other_tenant(connection, own, tenant, who)
        bindings = found.bindings
        if to.id != own.id and token.scopes is not None:  # a token with scopes of its own is for one tenant
            bindings = tuple(binding for binding in bindings if binding.tenant is None)
        held = _rights(bindings, own, to, who).within(token.scopes)
        self.token_use.note(token.id, token.used_at, address)
        return Caller(
            tenant_id=to.id,
            tenant=to.name,
            user=token.user,
            plan=to.plan,
            trusted=to.trusted,
            scopes=held.scopes,
            role=widest_role(found.bindings, to.id),
            kind=kind,
            principal_id=token.owner,
            token_id=token.id,
            token_name=token.name or "",
            foreign=_is_foreign(found.bindings, to),
            everywhere=held.everywhere,
            own_only=changes_own_only(bindings, to.id, share_control=to.share_control),
            expires_at=token.expires_at,
            expires_soon=token.expires_at is not None and token.expires_at < datetime.now(UTC) + EXPIRES_SOON,
            pools=held.pools,
            restrictions=token.restrictions,
        )

    async def _look_up_session(self, secret: str, tenant: str | None) -> Caller:
        async with self._database.engine() as connection:
            found = await find_session(connection, hash_secret(secret), idle=SESSION_IDLE, proof=PROOF_COUNTS)
            if found is None:
                raise unauthorized(Presented("session", hash_secret(secret)))
            if found.seen_long_ago:
                await see_session(connection, found.id)
            credential = f"session {found.id}"
            who = Stranger(CallerKind.USER.value, found.user, credential, found.tenant.id, tenant or "")
            to = await _other_tenant(connection, found.tenant, tenant, who)
        held = _rights(found.bindings, found.tenant, to, who)
        return Caller(
            tenant_id=to.id,
            tenant=to.name,
            user=found.user,
            plan=to.plan,
            trusted=to.trusted,
            scopes=held.scopes,
            role=widest_role(found.bindings, to.id),
            kind=CallerKind.USER,
            principal_id=found.principal,
            session_id=found.id,
            proved=found.proved,
            foreign=_is_foreign(found.bindings, to),
            everywhere=held.everywhere,
            own_only=changes_own_only(found.bindings, to.id, share_control=to.share_control),
            expires_at=found.ends_at,
            pools=held.pools,
        )

    async def _look_up_node(self, text: str) -> Caller:
        claim = None if self._node_tokens is None else self._node_tokens.read(text.strip())
        if claim is None:
            raise unauthorized()
        async with self._database.engine() as connection:
            found = await find_identity(connection, claim.identity, boot=claim.boot, ends_us=claim.ends_us)
        if found is None:
            raise unauthorized()
        return caller_of(found)

    async def _look_up_attempt(self, text: str) -> Caller:
        key = self._attempt_keys.read(text.strip())
        if key is None:
            raise unauthorized()
        task, attempt = key
        async with self._database.engine() as connection:
            found = await find_attempt(connection, task, attempt)
        if found is None:
            raise key_is_over(task, attempt)
        return Caller(
            tenant_id=found.tenant_id,
            tenant=found.tenant,
            user=found.user,
            plan=found.plan,
            trusted=found.trusted and not found.is_isolated,  # what it submits is isolated too
            scopes=MEMBER_SCOPES,
            role=Role.MEMBER,
            kind=CallerKind.TASK,
            task=SubmittingTask(
                id=task,
                attempt=attempt,
                graph=found.graph,
                secrets=frozenset(names_in_spec(found.spec_head)),
            ),
        )


def caller_of(node: Identity) -> Caller:
    """A node's agent: of no tenant, and good for what agents do."""
    return Caller(
        tenant_id=0,
        tenant="",
        user=f"{node.pool}/{node.name}",
        plan=_NO_PLAN,
        scopes=SCOPES[Role.WORKER, Reach.EVERYWHERE],
        role=Role.WORKER,
        kind=CallerKind.NODE,
        node=node,
        pools=frozenset(),
    )


def _to(tenant: str | None) -> str:
    """The end of what a caller is remembered by. A header has no line breaks; an empty one names a tenant too."""
    return "" if tenant is None else f"\nto {tenant}"


async def _other_tenant(connection: AnyConnection, own: FoundTenant, name: str | None, who: Stranger) -> FoundTenant:
    """The tenant that a request names. One that the caller may not see and one that is not there look alike."""
    if name is None or name == own.name:
        return own
    found = await find_tenant(connection, name)
    if found is None:
        raise _hidden(who)
    return found


def _hidden(who: Stranger) -> Problem:
    problem = not_found("tenant")
    problem.denied = who
    return problem


def _is_foreign(bindings: Sequence[Binding], to: FoundTenant) -> bool:
    """Whether only roles that hold everywhere open the tenant."""
    return all(binding.tenant != to.id for binding in bindings)


def _rights(bindings: Sequence[Binding], own: FoundTenant, to: FoundTenant, who: Stranger) -> Rights:
    """Who has no rights at another tenant hears that it is not there; who has none at their own, what they lack."""
    if to.id != own.id and not any(looks_into(binding, to.id) for binding in bindings):
        raise _hidden(who)
    return rights(bindings, to.id, support=to.support)
