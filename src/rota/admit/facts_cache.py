"""Keeps the facts that requests are judged against: catalogue, nodes and the database's clock, read every second, and
the run times that leaders have learned, read every few seconds.

This node's wall clock is never used: a time is the monotonic clock plus an offset measured against PostgreSQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta

import structlog

from rota.admit.judge.facts import Facts, PoolFacts
from rota.model.catalogue import Category, LaneRule, Tier
from rota.model.errors import Problem, unavailable
from rota.model.request.needs import DEFAULT_LOG_BYTES
from rota.model.tenant import Caller
from rota.store import catalogue
from rota.store.database import AnyConnection, Database
from rota.store.nodes import read_capacities
from rota.store.reading import database_clock
from rota.store.run_times import MOST_A_TENANT, read_run_times

log = structlog.get_logger()

REFRESH_SECONDS = 1.0
LEARN_AFTER = timedelta(seconds=5)
LOOK_BACK = timedelta(seconds=30)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
FRESH_SECONDS = 0.1  # the shortest time between two reads, however many requests are refused


_CLOCKS_DIFFER = 1e-4  # at most, in a second: by so much our time is behind after each


def _at(anchor: tuple[float, datetime], moment: float) -> datetime:
    """The database's time at that moment of the monotonic clock, or a little earlier."""
    monotonic, instant = anchor
    return instant + timedelta(seconds=(moment - monotonic) * (1 - _CLOCKS_DIFFER))


class FactsCache:
    def __init__(
        self, database: Database, *, log_limit_bytes: int = DEFAULT_LOG_BYTES, most_log_bytes: int | None = None
    ) -> None:
        self._database = database
        self._log_limit_bytes = log_limit_bytes
        self._most_log_bytes = most_log_bytes
        self._anchor: tuple[float, datetime] | None = None
        self._read_at = 0.0
        self._rereading = asyncio.Lock()
        self._hinted = asyncio.Event()
        self._tiers: dict[str, Tier] = {}
        self._pools: dict[str, PoolFacts] = {}
        self._lanes: dict[str, LaneRule] = {}
        self._categories: dict[str, Category] = {}
        self._run_times: dict[int, dict[int, int]] = {}  # tenant → work → µs
        self._learned_until: datetime | None = None

    def now(self) -> datetime:
        """The database's time, without a query."""
        if self._anchor is None:
            raise unavailable("this node has not reached the database yet")
        return _at(self._anchor, time.monotonic())

    def _hear(self, now: datetime, *, asked: float, heard: float) -> None:
        """The database's time was `now` at some moment between the question and its answer.

        Our time is never ahead of the database's, so that a task that was acknowledged is older than what the database
        calls now in a later request, such as a cancel by filter; and no answer that was long on its way sets it back,
        so that what is submitted after such a request is younger.
        """
        if self._anchor is not None and now <= _at(self._anchor, heard) <= now + timedelta(seconds=heard - asked):
            return
        self._anchor = (heard, now)

    def of(self, caller: Caller) -> Facts:
        typical_us = self._run_times.get(caller.tenant_id, {})
        return Facts(
            self.now(),
            caller.plan,
            self._tiers,
            self._pools,
            self._lanes,
            self._categories,
            caller.trusted,
            typical_us,
            tenant=caller.tenant,
            log_limit_bytes=self._log_limit_bytes,
            most_log_bytes=self._most_log_bytes,
        )

    def pool(self, number: int) -> PoolFacts | None:
        return next((pool for pool in self._pools.values() if pool.id == number), None)

    async def reread(self) -> bool:
        """Reads the facts at once, for a request that stale facts may have refused.

        Requests that are refused together share a read that began after the call. False: the database is unreachable.
        """
        asked = time.monotonic()
        async with self._rereading:
            if self._read_at > asked:
                return True
            await asyncio.sleep(self._read_at + FRESH_SECONDS - asked)
            try:
                await self.refresh()
            except Problem:
                return False
            return True

    async def refresh(self) -> None:
        async with self._database.engine() as connection:
            before = time.monotonic()
            now = await database_clock(connection)
            self._hear(now, asked=before, heard=time.monotonic())
            self._tiers = {tier.name: tier for tier in await catalogue.read_tiers(connection)}
            self._lanes = {lane.name: lane for lane in await catalogue.read_lanes(connection)}
            self._categories = {one.name: one for one in await catalogue.read_categories(connection)}
            nodes = await read_capacities(connection)
            self._pools = {
                pool.name: PoolFacts(pool.id, pool.name, pool.elastic, tuple(nodes.get(pool.id, ())), pool.isolations)
                for pool in await catalogue.read_pools(connection)
            }
            self._read_at = before
            if self._learned_until is None or now - self._learned_until > LEARN_AFTER:
                await self._learn_run_times(connection, now)

    async def _learn_run_times(self, connection: AnyConnection, now: datetime) -> None:
        """Reads new run times. LOOK_BACK covers rows that were written before the last read and committed after it."""
        since = LONG_AGO if self._learned_until is None else self._learned_until - LOOK_BACK
        for tenant, work, typical_us in await read_run_times(connection, since):
            known = self._run_times.setdefault(tenant, {})
            known[work] = typical_us
            if len(known) > 2 * MOST_A_TENANT:
                for old in list(known)[:MOST_A_TENANT]:
                    del known[old]
        self._learned_until = now

    def hint(self) -> None:
        """Asks for an early read because something on this node changed the facts."""
        self._hinted.set()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._hinted.wait()
            await asyncio.sleep(max(0.0, self._read_at + FRESH_SECONDS - time.monotonic()))
            self._hinted.clear()
            try:
                await self.refresh()
            except Problem as error:
                log.warning("facts.database_away", error=error.detail)
