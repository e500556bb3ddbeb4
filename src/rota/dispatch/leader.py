"""The leader of one pool for one term: restores its memory from rows, runs the loops, steps down.

A leader's memory is a cache: built here from PostgreSQL, dropped whole when the lease is over. Stepping down is always
safe, because every message to an agent or a client follows its commit.
"""

from __future__ import annotations

import asyncio

import structlog

from rota import wire
from rota.decide.messages import AttemptAdopted
from rota.dispatch.concurrency_keys import follow_keys
from rota.dispatch.cycle import run_cycle
from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.news import News
from rota.dispatch.operator_rules import learn_rules, restore_shares
from rota.dispatch.pool import Authorised, PoolState
from rota.dispatch.pool_questions import Insight
from rota.dispatch.settling import run_settling
from rota.dispatch.watch import measure_clock, run_watch
from rota.model.queue import AuthorisedAttempt
from rota.store import queue
from rota.store.database import Database, close_quietly

log = structlog.get_logger()

CANCEL_AGAIN_SECONDS = 0.5


class PoolLeader:
    def __init__(self, database: Database, pool: PoolState) -> None:
        self._database = database
        self.pool = pool
        self.news = News(pool)
        self.insight = Insight(pool)
        self.ready = asyncio.Event()  # restored: agents may connect

    async def run(self) -> None:
        """Runs until the lease is over. Raises nothing but cancellation and programming errors."""
        pool = self.pool
        starting = FencedConnection(self._database, pool.fence)
        settling = FencedConnection(self._database, pool.fence)
        loops: list[asyncio.Task[None]] = []
        try:
            await self._restore()
            self.ready.set()
            log.info("leader.began", pool=pool.name, epoch=pool.lease.epoch, running=len(pool.attempts))
            loops = [
                asyncio.create_task(run_cycle(pool, starting), name=f"cycle-{pool.name}"),
                asyncio.create_task(run_settling(pool, settling), name=f"settling-{pool.name}"),
                asyncio.create_task(run_watch(pool, self._database), name=f"watch-{pool.name}"),
                asyncio.create_task(self._until_over(), name=f"lease-{pool.name}"),
            ]
            done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            pool.lease.end()
            self.ready.clear()
            for session in list(pool.sessions.values()):  # first, so that agents look for the next leader meanwhile
                session.close(wire.CLOSE_NOT_LEADER, "another node leads this pool now")
            await _end_all(loops)
            await asyncio.gather(starting.close(), settling.close())
            log.info("leader.stepped_down", pool=pool.name, epoch=pool.lease.epoch)

    async def _restore(self) -> None:
        pool = self.pool
        connection = await self._database.direct("restore")
        try:
            await measure_clock(pool, connection)
            await learn_rules(pool, connection)
            await follow_keys(pool, connection)
            held = await queue.load_running(connection, pool.id)
            await pool.loader.learn_shapes(connection, (attempt.shape for attempt in held), pool.now_us())
            adopt(pool, held)
            await pool.loader.poll(connection, pool.now_us())
            await restore_shares(pool, connection)
        finally:
            await close_quietly(connection)

    async def _until_over(self) -> None:
        while self.pool.lease.valid():  # noqa: ASYNC110 (a lease ends by the clock, which sets no event)
            await asyncio.sleep(self.pool.settings.timings.renew_seconds / 10)

    def reload(self, node: int) -> bool | None:
        """Tells a node that code was deployed there. False: its agent doesn't know the message; None: not connected."""
        session = self.pool.sessions.get(node)
        if session is None:
            return None
        if wire.RELOAD not in session.capabilities:
            return False
        session.send(wire.Reload(self.pool.lease.epoch))
        return True


def adopt(pool: PoolState, held: list[AuthorisedAttempt]) -> None:
    """Takes over attempts that an earlier leader authorised: they keep their grants, and their grace begins anew."""
    at = pool.clock()
    for attempt in held:
        pool.core.apply(AttemptAdopted(attempt), pool.now_us())
        pool.attempts[attempt.task] = Authorised(
            attempt.task, attempt.attempt, attempt.node, attempt.boot, attempt.grace_ms, at
        )


async def _end_all(loops: list[asyncio.Task[None]]) -> None:
    """Cancels until all have ended. Once is not enough: with the database away, the driver may turn a cancellation into
    a connection error, which a loop treats as one more outage.
    """
    while going := [task for task in loops if not task.done()]:
        for task in going:
            task.cancel()
        await asyncio.wait(going, timeout=CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*loops, return_exceptions=True)
