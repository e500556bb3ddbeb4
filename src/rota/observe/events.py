"""Streams of events: each listener reads the log from its own cursor; one poll per node wakes all of them.

Nothing is stored for a listener. It keeps its cursor, so it can go on where it was on any node. This module also
records late tasks: no other part would, because nothing happens to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime

import structlog

from rota.model.errors import Problem
from rota.model.event import Event, EventCursor, EventFilter
from rota.store import events
from rota.store.database import Database

log = structlog.get_logger()

POLL_SECONDS = 0.25
LATE_SECONDS = 1.0
QUIET_SECONDS = 2.0  # without an event for this long, a listener is sent its cursor: a sign of life
MOST_LISTENERS = 100  # per tenant and node


class Events:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners: dict[int, list[asyncio.Event]] = {}
        self._is_closed = False

    def close(self) -> None:
        """This node is stopping: every stream ends, and its listener goes on at another node."""
        self._is_closed = True
        for tenant in self._listeners.values():
            for news in tenant:
                news.set()

    @contextmanager
    def _listening(self, tenant: int) -> Iterator[asyncio.Event]:
        news = asyncio.Event()
        self._listeners.setdefault(tenant, []).append(news)
        try:
            yield news
        finally:
            own = self._listeners[tenant]
            own.remove(news)
            if not own:
                del self._listeners[tenant]

    def check_limit(self, tenant: int) -> None:
        if len(self._listeners.get(tenant, ())) >= MOST_LISTENERS:
            raise Problem(
                "too-many-streams",
                status=429,
                title="Too many streams",
                retry_after_seconds=5,
                detail=f"{MOST_LISTENERS} streams of this tenant are open on this node already; close one",
            )

    async def newest(self) -> EventCursor:
        async with self._database.engine() as connection:
            return await events.newest_cursor(connection)

    async def follow(
        self, tenant: int, after: EventCursor, wanted: EventFilter, *, since: datetime, forever: bool
    ) -> AsyncIterator[Event | EventCursor]:
        """Yields events, and a cursor if there was none for a while. Ends at the present unless `forever`."""
        yield after
        with self._listening(tenant) as news:
            while True:
                news.clear()
                async with self._database.tenant(tenant) as connection:
                    read = await events.read_events(
                        connection, tenant, after, since=since, task=wanted.task, types=wanted.types
                    )
                for event in read.events:
                    if wanted.wants(event):
                        yield event
                after = read.cursor
                if read.full:
                    continue
                if not forever or self._is_closed:
                    yield after
                    return
                while not news.is_set():
                    try:
                        async with asyncio.timeout(QUIET_SECONDS):
                            await news.wait()
                    except TimeoutError:
                        yield after

    async def run(self) -> None:
        """Polls for news with one query for all listeners of this node."""
        since = 0
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if not self._listeners:
                since = 0
                continue
            try:
                async with self._database.engine() as connection:
                    horizon = await events.newest_cursor(connection)
                    tenants = await events.tenants_with_news(connection, list(self._listeners), since)
            except Problem as error:
                log.debug("events.database_away", error=error.detail)
                continue
            since = horizon.xid
            for tenant in tenants:
                for news in self._listeners.get(tenant, ()):
                    news.set()

    async def run_late(self) -> None:
        """Records late tasks. Several nodes may do so at once: the first one marks a task."""
        while True:
            await asyncio.sleep(LATE_SECONDS)
            try:
                async with self._database.engine() as connection:
                    while await events.record_late(connection) == events.MOST_LATE:
                        pass
            except Problem as error:
                log.debug("events.database_away", error=error.detail)
