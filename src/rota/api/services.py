"""The services that routes use: `server/node.py` builds one of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request

from rota.admit.admission import Admission
from rota.admit.artifacts import Artifacts
from rota.admit.authenticate import Authenticator, unauthorized
from rota.admit.facts_cache import FactsCache
from rota.admit.graph_runs import GraphRuns
from rota.admit.oidc.provider import Provider
from rota.admit.open_connections import OpenConnections
from rota.admit.passwords import Passwords
from rota.admit.sign_in_limits import SignInLimits
from rota.api.audit_sampling import CALLER, note_read
from rota.api.described import read_query
from rota.api.permissions import rule_of
from rota.api.requests import Cursors, beyond_key, check_restrictions, check_scope
from rota.api.sign_in.cookies import check_own_site, session_secret
from rota.cluster.membership import Membership
from rota.dispatch.leadership import Leadership
from rota.model.accounts.restrictions import UNRESTRICTED
from rota.model.errors import Problem, not_found
from rota.model.task import State
from rota.model.tenant import Caller
from rota.node_identity import NodeTokens
from rota.observe.events import Events
from rota.observe.notify.notifier import Notifier
from rota.observe.waiting import Waiting
from rota.operations.batch import Batch
from rota.operations.runner import Operations
from rota.settings import Settings
from rota.store.audit_notes import AuditNotes
from rota.store.cancel_and_rerun import Cancelled
from rota.store.database import AnyConnection, Database
from rota.store.edits import Edited
from rota.store.expiry import Expired
from rota.store.key_file import KeyFile
from rota.store.log_segments import Segments
from rota.store.logs import Attempt
from rota.store.nodes import ClusterIdentity
from rota.store.pausing import Resumed
from rota.timetable.runs import Runs
from rota.timetable.ticker import Ticker

T = TypeVar("T")

_SESSION_NEEDED = "this is for users who signed in, with a browser; a token does not change how somebody signs in"

TOKEN_EXPIRES = "rota.token_expires"  # in the scope of a request: when its token does, if that is soon


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    database: Database
    authenticator: Authenticator
    passwords: Passwords
    sign_in_limits: SignInLimits
    node_tokens: NodeTokens
    audit_notes: AuditNotes
    open_connections: OpenConnections
    admission: Admission
    leadership: Leadership
    membership: Membership
    waiting: Waiting
    cluster: ClusterIdentity
    cursors: Cursors
    secret_keys: KeyFile | None  # None: this server node has no master key
    oidc: Provider | None  # None: nobody signs in through a provider
    artifacts: Artifacts
    facts: FactsCache
    runs: Runs
    graph_runs: GraphRuns
    operations: Operations
    ticker: Ticker
    events: Events
    notifier: Notifier
    segments: Segments
    move_log: Callable[[Attempt], Awaitable[int]]  # to the object store now; returns how much stays in the database


def tell_cancelled(leadership: Leadership, waiting: Waiting, cancelled: Cancelled) -> None:
    """Tells leaders and waiting clients which tasks are cancelled, after the commit."""
    for pool in {pool for _, pool in cancelled.ended} | {pool for _, pool, _ in cancelled.stopping}:
        leadership.cancelled(
            pool,
            running=[(task, attempt) for task, own, attempt in cancelled.stopping if own == pool],
            waiting=[task for task, own in cancelled.ended if own == pool],
        )
    leadership.poll_soon(cancelled.dependent_pools)
    waiting.ended([(task, State.CANCELLED) for task, _ in cancelled.ended])


def tell_expired(leadership: Leadership, waiting: Waiting, expired: Expired) -> None:
    """Tells leaders and waiting clients which tasks expired, after the commit."""
    for pool in {pool for _, pool in expired.tasks}:
        leadership.cancelled(pool, running=[], waiting=[task for task, own in expired.tasks if own == pool])
    leadership.poll_soon(expired.dependent_pools)
    waiting.ended([(task, State.EXPIRED) for task, _ in expired.tasks])


def tell_held(leadership: Leadership, held: Sequence[tuple[int, int]]) -> None:
    """Tells leaders which waiting tasks they must not start; each with its pool."""
    for pool in {pool for _, pool in held}:
        leadership.cancelled(pool, running=[], waiting=[task for task, own in held if own == pool])


def tell_edited(leadership: Leadership, edited: Edited) -> None:
    """Tells the leader of the old pool, and that of the new one."""
    now = edited.now
    if now.state is State.READY and now.pool == edited.pool_before:
        leadership.reordered(now.pool, now.task.tenant, now.task.id, now.task.order)
    else:
        leadership.cancelled(edited.pool_before, running=[], waiting=[now.task.id])
    if now.state is not State.PAUSED:
        announce(leadership, now)


def tell_batch(leadership: Leadership, waiting: Waiting, batch: Batch) -> None:
    """Tells leaders and waiting clients what a batch of an operation changed, after its commit."""
    if batch.cancelled is not None:
        tell_cancelled(leadership, waiting, batch.cancelled)
    tell_held(leadership, batch.held)
    for released in batch.released:
        announce(leadership, released)
    for edited in batch.edited:
        tell_edited(leadership, edited)
    for pool in {pool for pool, _ in batch.ready}:  # its leader reads the rest
        leadership.announce(pool, min((task for own, task in batch.ready if own == pool), key=lambda task: task.order))


def announce(leadership: Leadership, resumed: Resumed) -> None:
    """Tells the leader of its pool about a task that waits again, or in another way."""
    if resumed.state is State.BLOCKED:
        leadership.poll_soon([resumed.pool])  # the tasks that it waits for may have ended meanwhile
        return
    if resumed.state is State.READY:
        leadership.announce(resumed.pool, resumed.task)
    if resumed.wakes_in_seconds is not None:
        leadership.timed(resumed.pool, resumed.task.tenant, max(0.0, resumed.wakes_in_seconds))


async def tell_of_rules(found: Services) -> None:
    """An operator changed what requests are judged or tasks are started by: act on it now, and let leaders do so.

    Nodes that hear nothing of it notice at their next read, within two seconds.
    """
    found.authenticator.forget()
    found.leadership.poll_soon(pool.id for pool in found.membership.pools.values())
    await found.facts.reread()


def services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


async def read_all(request: Request, read: Callable[[AnyConnection], Awaitable[list[T]]]) -> list[T]:
    """A list that is the same for every caller who may see it."""
    found, _ = await authorise(request)
    read_query(request)
    async with found.database.engine() as connection:
        return await read(connection)


async def authorise(request: Request) -> tuple[Services, Caller]:
    """The services, and the caller, which has what `permissions.py` asks for this route."""
    found = services(request)
    rule = rule_of(request.scope["endpoint"].__name__)
    caller = request.scope[CALLER] = await _caller(request, found)
    if caller.task is not None and not rule.by_tasks:
        raise beyond_key(f"not {request.method} {request.url.path}"[:200])
    if caller.restrictions is not UNRESTRICTED:
        check_restrictions(request, caller, by_restricted=rule.by_restricted)
    if rule.by_session and not caller.session_id:
        raise Problem("session-needed", status=403, title="Forbidden", detail=_SESSION_NEEDED)
    if rule.scope is not None:
        check_scope(caller, rule.scope)
    if caller.foreign:
        note_read(found.audit_notes, request, caller, rule.scope)
    return found, caller


async def _caller(request: Request, found: Services) -> Caller:
    headers = request.headers
    authorizations, tenants = headers.getlist("authorization"), headers.getlist("rota-tenant")
    if len(authorizations) > 1:  # a proxy before us may have judged another one than we would
        raise unauthorized()
    if len(tenants) > 1:
        raise not_found("tenant")
    authorization, tenant = next(iter(authorizations), None), next(iter(tenants), None)
    secret = session_secret(request, found.settings) if authorization is None else None
    if secret is None:
        address = request.client.host if request.client else None
        caller = await found.authenticator.caller(authorization, tenant=tenant, address=address)
        if caller.expires_soon:
            request.scope[TOKEN_EXPIRES] = caller.expires_at
        return caller
    check_own_site(request, found.settings)
    return await found.authenticator.session(secret, tenant=tenant)
