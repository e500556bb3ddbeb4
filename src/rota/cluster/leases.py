"""Holds leases: a separate thread renews them, and local trust in a lease ends before it expires in the database.

The lease is liveness, the fence is safety: only the fence in its batches stops a paused leader. Renewal runs in its own
thread, so a busy main loop keeps its pools; but it stops if that loop makes no progress, so a stuck one loses them. Any
doubt means "not leader". Trust counts from when a renewal was *sent*, on the monotonic clock.

    renewal sent ──────────────── trust ends ── lease expires in the database ── another node may win the pool
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from uuid import UUID

import structlog

from rota.settings import Timings
from rota.store import leases as store
from rota.store.database import CONNECTION_LOST, Connection, close_quietly, connect

log = structlog.get_logger()


class Lease:
    """One term of leading one pool. A term that is over never resumes."""

    def __init__(
        self, pool: int, epoch: int, holder: UUID, *, trusted_until: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pool = pool
        self.epoch = epoch
        self.holder = holder
        self._trusted_until = trusted_until
        self._clock = clock
        self._over = False

    def valid(self) -> bool:
        """Once False, always False: a caller that saw it may have left work for the next leader."""
        if not self._over and self._clock() >= self._trusted_until:
            self._over = True
        return not self._over

    def extend(self, trusted_until: float) -> None:
        """A reply after the trust has ended changes nothing: the term is over."""
        if self.valid():
            self._trusted_until = trusted_until

    def end(self) -> None:
        self._over = True

    def renewed(self, answer: bool | None, *, sent: float, trust_seconds: float) -> None:
        """Applies the reply to a renewal. None: there was no reply, so the trust runs out."""
        if answer:
            self.extend(sent + trust_seconds)
        elif answer is not None:
            self.end()


def renew_pause(timings: Timings, *, connected: bool) -> float:
    """Seconds between renewals: several fit into a lease, and more while the database is unreachable."""
    return timings.renew_seconds / (1 if connected else 4)


def new_holder(random_bits: int) -> UUID:
    """The identity of a lease holder: one random number per process start."""
    return UUID(int=random_bits)


class LeaseKeeper:
    """The renewal thread. `hold` adds a lease; `on_lost(lease)` is called in the main loop when it is over."""

    def __init__(self, url: str, timings: Timings, on_lost: Callable[[Lease], None]) -> None:
        self._url = url
        self._timings = timings
        self._on_lost = on_lost
        self._leases: dict[int, Lease] = {}
        self._main = asyncio.get_running_loop()
        self._progress = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)
        self._beat: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._beat = asyncio.create_task(self._show_progress(), name="lease-progress")
        self._thread.start()

    async def stop(self) -> None:
        self._stop.set()
        if self._beat is not None:
            self._beat.cancel()
        await asyncio.to_thread(self._thread.join, 5)

    def hold(self, lease: Lease) -> None:
        self._leases[lease.pool] = lease

    def drop(self, lease: Lease) -> None:
        lease.end()
        if self._leases.get(lease.pool) is lease:
            del self._leases[lease.pool]

    async def _show_progress(self) -> None:
        """Shows that the main loop makes progress."""
        while True:
            self._progress = time.monotonic()
            await asyncio.sleep(self._timings.renew_seconds / 6)

    def _run(self) -> None:
        asyncio.run(self._renew_for_ever())

    async def _renew_for_ever(self) -> None:
        connection: Connection | None = None
        while not self._stop.is_set():
            if time.monotonic() - self._progress < self._timings.trust_seconds / 2:
                try:
                    if self._leases and (connection is None or connection.is_closed()):
                        connection = await connect(
                            self._url, {"application_name": "rota lease"}, keepalive=self._timings.keepalive
                        )
                    for lease in list(self._leases.values()):
                        assert connection is not None
                        await self._renew(connection, lease)
                except CONNECTION_LOST as error:
                    log.warning("lease.renewal_failed", error=repr(error))
                    if connection is not None:
                        connection.terminate()
                    connection = None
            self._end_untrusted()
            await asyncio.to_thread(self._stop.wait, renew_pause(self._timings, connected=connection is not None))
        await close_quietly(connection)

    async def _renew(self, connection: Connection, lease: Lease) -> None:
        sent = time.monotonic()
        try:
            async with asyncio.timeout(self._timings.renew_seconds):
                renewed = await store.renew_lease(
                    connection, lease.pool, lease.epoch, lease.holder, seconds=self._timings.lease_seconds
                )
        except CONNECTION_LOST:
            lease.renewed(None, sent=sent, trust_seconds=self._timings.trust_seconds)
            raise
        lease.renewed(renewed, sent=sent, trust_seconds=self._timings.trust_seconds)

    def _end_untrusted(self) -> None:
        for lease in list(self._leases.values()):
            if not lease.valid():
                self._leases.pop(lease.pool, None)
                lease.end()
                self._main.call_soon_threadsafe(self._on_lost, lease)
