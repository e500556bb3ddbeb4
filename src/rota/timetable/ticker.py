"""The ticker: turns due instants into runs. One server node holds its lease, and every batch is fenced.

It keeps no state between batches: cursors are rows, and a batch (occurrences, tasks, cursors) is one transaction that
holds the ticker's term. So after a crash, a pause or a lost reply an instant is either done or still due, and the next
batch on any node sees which. Time is the database's. Under load two batches overlap: one is drafted while the database
writes the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

import asyncpg
import structlog

from rota.cluster.leases import Lease, LeaseKeeper
from rota.dispatch.fenced_connection import FencedConnection
from rota.model.errors import Problem
from rota.settings import Settings
from rota.store import schedules
from rota.store.cancel_and_rerun import Cancelled
from rota.store.database import CONNECTION_LOST, Connection, Database
from rota.store.leases import acquire_lease, release_lease
from rota.store.queue import Fence
from rota.store.schedules import HEAD, TICKER_POOL, DueCursor
from rota.timetable.batch import TermOver, run_batch
from rota.timetable.runs import Runs

log = structlog.get_logger()


class Ticker:
    def __init__(
        self,
        *,
        database: Database,
        settings: Settings,
        holder: UUID,
        runs: Runs,
        on_cancelled: Callable[[Cancelled], None],
    ) -> None:
        self._database = database
        self._settings = settings
        self._holder = holder
        self._runs = runs
        self._on_cancelled = on_cancelled
        self._wake = asyncio.Event()
        self._keeper = LeaseKeeper(database.url, settings.timings, self._lost)

    def changed(self) -> None:
        """Wakes the ticker after a change of a schedule on this node: its cursor may be due soon."""
        self._wake.set()

    async def run(self) -> None:
        """Campaigns for the lease and ticks until cancelled."""
        self._keeper.start()
        try:
            while True:
                lease = await self._campaign()
                if lease is not None:
                    await self._term(lease)
                await asyncio.sleep(self._settings.timings.lease_seconds / 10)
        finally:
            await self._keeper.stop()

    async def _campaign(self) -> Lease | None:
        timings, holder = self._settings.timings, self._holder
        sent = time.monotonic()
        try:
            async with self._database.engine() as connection:
                epoch = await acquire_lease(connection, TICKER_POOL, holder, seconds=timings.lease_seconds)
        except (Problem, *CONNECTION_LOST) as error:
            log.warning("ticker.campaign_failed", error=repr(error))
            return None
        return None if epoch is None else Lease(TICKER_POOL, epoch, holder, trusted_until=sent + timings.trust_seconds)

    async def _term(self, lease: Lease) -> None:
        fence = Fence(lease.pool, lease.epoch, lease.holder)
        fenced = [FencedConnection(self._database, fence) for _ in range(2)]
        self._keeper.hold(lease)
        log.info("ticker.began", epoch=lease.epoch)
        try:
            while lease.valid():
                await self._tick_safely(fenced, fence, lease)
        except TermOver:
            log.warning("ticker.fenced_out", epoch=lease.epoch)
        except asyncio.CancelledError:
            _lost(fenced)
            await self._release(lease)
            raise
        except Exception:
            log.exception("ticker.crashed")  # a bug; the next term starts from the rows
        finally:
            self._keeper.drop(lease)
            for one in fenced:
                await one.close()

    async def _tick_safely(self, fenced: list[FencedConnection], fence: Fence, lease: Lease) -> None:
        """Runs the due batches, then waits for the next cursor."""
        pause = self._settings.timings.poll_seconds
        try:
            connection = await fenced[0].get()
            after = await self.tick(connection, fence)
            if after is not None:
                await self._burst(fenced, fence, lease, after)
            seconds = await schedules.seconds_to_next(connection)
        except asyncpg.TransactionRollbackError:  # a deadlock with a settlement: nothing was written
            return
        except (Problem, *CONNECTION_LOST) as error:
            log.warning("ticker.database_away", error=repr(error))
            _lost(fenced)
            seconds = None
        if seconds is not None:
            pause = min(pause, max(0.0, seconds))
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause + 0.001):
                await self._wake.wait()

    async def _burst(self, fenced: list[FencedConnection], fence: Fence, lease: Lease, after: DueCursor) -> None:
        """Runs batches on all connections until nothing is due; each takes rows that the others have not locked."""

        async def lane(one: FencedConnection) -> None:
            cursor: DueCursor | None = after
            while cursor is not None and lease.valid():
                cursor = await self.tick(await one.get(), fence, cursor)

        lanes = [asyncio.ensure_future(lane(one)) for one in fenced]
        try:
            await asyncio.gather(*lanes)
        finally:
            if not all(one.done() and not one.cancelled() and one.exception() is None for one in lanes):
                for one in lanes:
                    one.cancel()
                await asyncio.gather(*lanes, return_exceptions=True)
                _lost(fenced)  # a statement may have been interrupted

    async def tick(self, connection: Connection, fence: Fence, after: DueCursor = HEAD) -> DueCursor | None:
        """One fenced batch after the cursor `after`. Returns where the next one begins; None: nothing more is due."""
        batch = await run_batch(connection, fence, self._runs.make, after)
        self._runs.announce(batch.made)
        for cancelled in batch.made.cancelled:
            self._on_cancelled(cancelled)
        return batch.next

    async def _release(self, lease: Lease) -> None:
        try:
            async with self._database.engine() as connection:
                await release_lease(connection, lease.pool, lease.epoch, lease.holder)
        except Problem as error:
            log.warning("ticker.not_released", error=error.detail)

    def _lost(self, lease: Lease) -> None:
        log.warning("ticker.lost", epoch=lease.epoch)


def _lost(fenced: list[FencedConnection]) -> None:
    for one in fenced:
        one.lost()
