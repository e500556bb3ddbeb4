"""Connections that outlive one request, such as a followed log: they end soon after the credential they began with.

A request is authenticated when it begins. Once a second, one query asks about the tokens of all open connections of
this server node, one about the rights that their owners have now, and one about the attempts whose keys opened some,
however many there are. Whoever has lost a scope is asked to begin again, and is then judged anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import structlog

from rota.admit.authenticate import unauthorized
from rota.model.accounts.permissions import Scope
from rota.model.errors import Problem
from rota.model.tenant import Caller
from rota.store.accounts import ended_sessions, rights_now
from rota.store.database import Database
from rota.store.node_keys import ended_identities, now_identified
from rota.store.tenants import ended_attempts, ended_tokens

log = structlog.get_logger()

LOOK_SECONDS = 1.0

T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose rights opened a connection, and which of them it began with."""

    principal: int
    tenant: int
    scopes: frozenset[Scope]


class OpenConnections:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._by_token: dict[int, list[asyncio.Event]] = {}
        self._by_session: dict[int, list[asyncio.Event]] = {}
        self._by_attempt: dict[tuple[int, int], list[asyncio.Event]] = {}  # task and number
        self._by_identity: dict[int, list[asyncio.Event]] = {}  # of nodes
        self._by_name: dict[tuple[int, str], list[asyncio.Event]] = {}  # pool and name of nodes without one
        self._by_owner: dict[Owner, list[asyncio.Event]] = {}

    @contextmanager
    def opened(self, caller: Caller) -> Iterator[asyncio.Event]:
        """While the connection is open. The event: it would not be opened any more as it was."""
        with self._credential(caller) as over:
            if caller.principal_id is None:
                yield over
            else:
                with _listed(self._by_owner, Owner(caller.principal_id, caller.tenant_id, caller.scopes), over):
                    yield over

    @contextmanager
    def speaking_for(self, pool: int, name: str, over: asyncio.Event) -> Iterator[None]:
        """While a worker's token speaks for the node of this name. The event: it does not any more."""
        with _listed(self._by_name, (pool, name), over):
            yield

    @contextmanager
    def _credential(self, caller: Caller) -> Iterator[asyncio.Event]:
        """The event: the token, session or task's key does not hold any more."""
        over = asyncio.Event()
        if caller.task is not None:
            with _listed(self._by_attempt, (caller.task.id, caller.task.attempt), over):
                yield over
        elif caller.node is not None:
            with _listed(self._by_identity, caller.node.id, over):
                yield over
        elif caller.session_id:
            with _listed(self._by_session, caller.session_id, over):
                yield over
        else:
            with _listed(self._by_token, caller.token_id, over):
                yield over

    async def while_valid(self, caller: Caller, stream: AsyncIterator[T]) -> AsyncIterator[T]:
        """The stream, until the caller's token or key does not hold any more."""
        with self.opened(caller) as over:
            ending = asyncio.create_task(over.wait(), name="credential-ends")
            following: asyncio.Future[T] | None = None
            try:
                while not over.is_set():
                    following = asyncio.ensure_future(anext(stream))
                    await asyncio.wait((following, ending), return_when=asyncio.FIRST_COMPLETED)
                    if not following.done() or over.is_set():
                        return
                    try:
                        item = following.result()
                    except StopAsyncIteration:
                        return
                    yield item
            finally:
                tasks = [one for one in (ending, following) if one is not None]
                for one in tasks:
                    one.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()

    async def answer(self, caller: Caller, waited: Awaitable[T]) -> T:
        """For a request that waits: its result, or 401 as soon as the caller's token or key does not hold any more."""
        with self.opened(caller) as over:
            ending = asyncio.create_task(over.wait(), name="credential-ends")
            result = asyncio.ensure_future(waited)
            try:
                await asyncio.wait((result, ending), return_when=asyncio.FIRST_COMPLETED)
                if over.is_set():
                    raise unauthorized()
                return result.result()
            finally:
                for one in (ending, result):
                    one.cancel()
                await asyncio.gather(ending, result, return_exceptions=True)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not any((self._by_token, self._by_session, self._by_attempt, self._by_identity)):
                continue
            try:
                over = await self._ended()
            except Problem as error:
                log.debug("open_connections.database_away", error=error.detail)
                continue
            for event in over:
                event.set()

    async def _ended(self) -> list[asyncio.Event]:
        found: list[asyncio.Event] = []
        async with self._database.engine() as connection:
            if self._by_token:
                for token in await ended_tokens(connection, list(self._by_token)):
                    found += self._by_token.get(token, [])
            if self._by_session:
                for session in await ended_sessions(connection, list(self._by_session)):
                    found += self._by_session.get(session, [])
            if self._by_attempt:
                for attempt in await ended_attempts(connection, list(self._by_attempt)):
                    found += self._by_attempt.get(attempt, [])
            if self._by_identity:
                for identity in await ended_identities(connection, list(self._by_identity)):
                    found += self._by_identity.get(identity, [])
            if self._by_name:
                for name in await now_identified(connection, list(self._by_name)):
                    found += self._by_name.get(name, [])
            if self._by_owner:
                held = await rights_now(connection, [(owner.principal, owner.tenant) for owner in self._by_owner])
                for owner, events in self._by_owner.items():
                    now = held.get((owner.principal, owner.tenant))
                    found += events if now is None or not owner.scopes <= now.scopes else []
        return found


@contextmanager
def _listed(events: dict[K, list[asyncio.Event]], credential: K, over: asyncio.Event) -> Iterator[None]:
    events.setdefault(credential, []).append(over)
    try:
        yield
    finally:
        events[credential].remove(over)
        if not events[credential]:
            del events[credential]
