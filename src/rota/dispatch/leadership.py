"""Leadership on one server node: campaigns for every pool, leads the pools it won, passes on news of the others.

The rest of the server node calls the news methods when something changed. Each goes to the leader if it is on this
node, else as a hint to the node that leads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from rota.attempt_key import AttemptKeys
from rota.cluster.hints import Hint, HintSender
from rota.cluster.leases import Lease, LeaseKeeper
from rota.cluster.membership import Membership
from rota.decide.core import Core
from rota.dispatch.leader import PoolLeader
from rota.dispatch.loader import Loader
from rota.dispatch.pool import PoolState
from rota.dispatch.pool_questions import Insight
from rota.model.audit import SecretUse
from rota.model.errors import Problem
from rota.model.queue import OrderKey, ReadyTask
from rota.model.resources import Shape
from rota.model.task import State
from rota.settings import Settings
from rota.store.database import CONNECTION_LOST, Database
from rota.store.key_file import KeyFile
from rota.store.leases import acquire_lease, release_lease
from rota.store.nodes import ClusterIdentity, Pool

log = structlog.get_logger()


class Leadership:
    def __init__(
        self,
        *,
        database: Database,
        settings: Settings,
        membership: Membership,
        cluster: ClusterIdentity,
        hints: HintSender,
        on_ended: Callable[[list[tuple[int, State]]], None],
        secret_keys: KeyFile | None,
        on_secrets_used: Callable[[SecretUse], None],
    ) -> None:
        self._database = database
        self._settings = settings
        self._membership = membership
        self._cluster = cluster
        self._hints = hints
        self._on_ended = on_ended
        self._secret_keys = secret_keys
        self._on_secrets_used = on_secrets_used
        self._terms: dict[int, asyncio.Task[None]] = {}
        self._above: dict[int, int] = {}  # pool → highest epoch an agent reported
        self._keeper = LeaseKeeper(database.url, settings.timings, self._lost)
        self.leaders: dict[int, PoolLeader] = {}

    async def run(self) -> None:
        """Campaigns until cancelled, then releases its leases so that other nodes needn't wait for them to end."""
        self._keeper.start()
        try:
            while True:
                for pool in self._membership.pools.values():
                    if pool.id not in self._terms:
                        await self._campaign(pool)
                await asyncio.sleep(self._settings.timings.lease_seconds / 10)
        finally:
            await self._step_down()
            await self._keeper.stop()

    async def _campaign(self, pool: Pool) -> None:
        timings = self._settings.timings
        sent = time.monotonic()
        try:
            async with self._database.engine() as connection:
                epoch = await acquire_lease(
                    connection,
                    pool.id,
                    self._membership.holder,
                    seconds=timings.lease_seconds,
                    above=self._above.get(pool.id, 0),
                )
        except (Problem, *CONNECTION_LOST) as error:
            log.warning("leadership.campaign_failed", pool=pool.name, error=repr(error))
            return
        if epoch is not None:
            lease = Lease(pool.id, epoch, self._membership.holder, trusted_until=sent + timings.trust_seconds)
            self._keeper.hold(lease)
            self._terms[pool.id] = asyncio.create_task(self._lead(pool, lease), name=f"term-{pool.name}")

    async def _lead(self, pool: Pool, lease: Lease) -> None:
        core = Core()
        state = PoolState(
            id=pool.id,
            name=pool.name,
            lease=lease,
            settings=self._settings,
            core=core,
            loader=Loader(core, pool.id, ready_limit=self._settings.ready_limit),
            database_identity=self._cluster.identity,
            attempt_keys=AttemptKeys(self._cluster.secret),
            on_ended=self._on_ended,
            on_other_pools=self.poll_soon,
            secret_keys=self._secret_keys,
            on_secrets_used=self._on_secrets_used,
        )
        leader = self.leaders[pool.id] = PoolLeader(self._database, state)
        try:
            await leader.run()
        except CONNECTION_LOST as error:
            log.warning("leadership.term_failed", pool=pool.name, error=repr(error))
        except Exception:
            log.exception("leadership.term_crashed", pool=pool.name)  # a bug; the next term starts from the rows
        finally:
            self._keeper.drop(lease)
            if self.leaders.get(pool.id) is leader:
                del self.leaders[pool.id]
            self._terms.pop(pool.id, None)

    def _lost(self, lease: Lease) -> None:
        log.warning("leadership.lost", pool=lease.pool, epoch=lease.epoch)

    def reacquire_above(self, pool: int, epoch: int) -> None:
        """An agent served a later epoch: ends this term, so that the next one is acquired above it."""
        self._above[pool] = max(epoch, self._above.get(pool, 0))
        leader = self.leaders.get(pool)
        if leader is not None:
            leader.pool.lease.end()

    async def _step_down(self) -> None:
        terms = {pool: (leader.pool.lease, self._terms[pool]) for pool, leader in self.leaders.items()}
        for _, task in terms.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in terms.values()), return_exceptions=True)
        for lease, _ in terms.values():
            try:
                async with self._database.engine() as connection:
                    await release_lease(connection, lease.pool, lease.epoch, lease.holder)
            except Problem as error:
                log.warning("leadership.not_released", pool=lease.pool, error=error.detail)

    # ---- news, to the leader here or on another node ---------------------------------------------------------------

    def arrived(self, pool: int, tasks: list[ReadyTask], shapes: dict[int, Shape]) -> None:
        leader = self.leader(pool)
        if leader is not None:
            leader.news.arrived(tasks, shapes)
            return
        hint = Hint(pool=pool)
        for task in tasks:
            hint.note_arrival(task.tenant, task.order)
        self._hint(hint)

    def announce(self, pool: int, task: ReadyTask) -> None:
        """A row that the leader reads from the database: for rare edits, whose shape it may not know."""
        self._tell(Hint(pool=pool, arrivals={task.tenant: task.order}))

    def timed(self, pool: int, tenant: int, seconds: float) -> None:
        self._tell(Hint(pool=pool, timers={tenant: seconds}))

    def cancelled(self, pool: int, *, running: list[tuple[int, int]], waiting: list[int]) -> None:
        self._tell(Hint(pool=pool, cancelled=running, gone=waiting))

    def paused(self, pool: int, running: list[tuple[int, int]]) -> None:
        self._tell(Hint(pool=pool, paused=running))

    def recapped(self, pool: int, caps: list[tuple[int, int, int]]) -> None:
        self._tell(Hint(pool=pool, caps=caps))

    def reordered(self, pool: int, tenant: int, task: int, order: OrderKey) -> None:
        """A waiting task was edited: the leader forgets its copy and reads the row again."""
        self._tell(Hint(pool=pool, gone=[task], arrivals={tenant: order}))

    def poll_soon(self, pools: Iterable[int]) -> None:
        """Rows of these pools changed that only a poll reads: dependents to release, places of keys, cool-downs."""
        for pool in sorted(pools):
            self._tell(Hint(pool=pool, poll=True))

    def _tell(self, hint: Hint) -> None:
        if self.leader(hint.pool) is not None:
            self.receive(hint)
        else:
            self._hint(hint)

    def receive(self, hint: Hint) -> None:
        """News of this node, or a hint from another one. Nothing happens if this node no longer leads the pool."""
        leader = self.leader(hint.pool)
        if leader is None:
            return
        news = leader.news
        if hint.gone:
            news.gone(hint.gone)  # first: an edited task is both gone and arrived
        for tenant, order in hint.all_arrivals():
            news.hinted(tenant, order)
        for tenant, seconds in hint.timers.items():
            news.timer(tenant, seconds)
        news.stop(hint.cancelled, "cancel")
        news.stop(hint.paused, "pause")
        news.recap(hint.caps)
        if hint.poll:
            news.poll_soon()

    def leader(self, pool: int) -> PoolLeader | None:
        """The pool's leader, if it is on this server node."""
        leader = self.leaders.get(pool)
        return leader if leader is not None and leader.ready.is_set() else None

    def insight(self, pool: int) -> Insight | None:
        """Answers from the memory of the pool's leader, if it is on this server node."""
        leader = self.leader(pool)
        return None if leader is None else leader.insight

    def _hint(self, hint: Hint) -> None:
        leader = self._membership.leaders.get(hint.pool)
        if leader is not None and leader.holder != self._membership.holder:
            self._hints.send(leader.url, hint)
