"""A server node: campaigns for pools, renews its leases, leads pools, sends hints to other leaders, and runs the API.

Mirrors `dispatch/leadership.py` and the renewal thread of `cluster/leases.py`; lease arithmetic and statements are
production code. `api.py` answers clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rota import wire
from rota.cluster.leases import Lease, new_holder, renew_pause
from rota.dispatch.news import News
from rota.dispatch.recalls import recall_paused
from rota.model.queue import OrderKey, ReadyTask
from rota.simulate.world.api import Api
from rota.simulate.world.database.connection import Lost, SimConnection
from rota.simulate.world.kernel import Call, Fiber, Process
from rota.simulate.world.leader import Term
from rota.simulate.world.links import End
from rota.simulate.world.timetable import Ticker
from rota.store import leases as lease_rows
from rota.store.expiry import expire_tasks

if TYPE_CHECKING:
    from rota.simulate.world.world import World

ASK_SECONDS = 2.0
CAMPAIGNS_A_LEASE = 3
EXPIRY_SECONDS = 2.0  # rarer than in production: each poll is three events


class Limited(Call):
    """Another call with a time limit; TimeoutError after it. The call itself goes on."""

    def __init__(self, fiber_of: Callable[[], Any], seconds: float) -> None:
        self._start = fiber_of
        self._seconds = seconds

    def begin(self, fiber: Fiber, ticket: int) -> None:
        async def run() -> None:
            try:
                value = await self._start()
            except Lost as error:
                fiber.fail(ticket, error)
            else:
                fiber.resume(ticket, value)

        fiber.process.spawn(run())
        fiber.process.kernel.after(self._seconds, fiber.fail, ticket, TimeoutError())


class Server(Process):
    def __init__(self, world: World, number: int, incarnation: int) -> None:
        super().__init__(world.kernel, f"server{number}.{incarnation}")
        self.world = world
        world.nemesis.prepare(self)
        self.number = number
        self.store = world.store
        self.holder = new_holder(world.kernel.random.getrandbits(127))
        self.terms: dict[int, Term] = {}
        self.ends: dict[End, None] = {}
        self._above: dict[int, int] = {}
        self._leases: dict[int, Lease] = {}
        self.api = Api(self)

    def start(self) -> None:
        for pool in self.world.pools:
            self.spawn(self._campaign(pool))
        self.spawn(self._keep_leases())
        if self.world.timetable is not None:
            self.spawn(Ticker(self).run())
        self.api.start()
        if self.world.options.expiry and self.world.options.deadlines:
            self.spawn(self._expire())

    def die(self) -> None:
        super().die()
        self.terms.clear()
        for end in self.ends:
            end.link.end_died(end)

    def connect(self) -> Any:
        """A new connection to the database, for production code."""
        return SimConnection(self.store, self)

    # ---- leases -----------------------------------------------------------------------------------------------------

    async def _campaign(self, pool: int) -> None:
        while True:
            await self.pause_of_campaign()
            if pool in self.terms:
                continue
            lease = await self.acquire(pool)
            if lease is not None:
                term = self.terms[pool] = Term(self, pool, lease)
                self.spawn(term.run())

    async def pause_of_campaign(self) -> None:
        lease_seconds = self.world.settings.timings.lease_seconds
        await self.sleep(lease_seconds / CAMPAIGNS_A_LEASE * self.kernel.random.uniform(0.5, 1.0))

    async def acquire(self, pool: int) -> Lease | None:
        timings, sent = self.world.settings.timings, self.clock()
        connection = self.connect()
        connection.takes_over = pool
        try:
            epoch = await lease_rows.acquire_lease(
                connection, pool, self.holder, seconds=timings.lease_seconds, above=self._above.get(pool, 0)
            )
        except Lost:
            return None
        if epoch is None:
            return None
        trusted_until = sent + timings.trust_seconds
        lease = self._leases[pool] = Lease(pool, epoch, self.holder, trusted_until=trusted_until, clock=self.clock)
        return lease

    async def _keep_leases(self) -> None:
        timings = self.world.settings.timings
        connected = True
        while True:
            await self.sleep(renew_pause(timings, connected=connected))
            for lease in list(self._leases.values()):
                sent = self.clock()
                connection = self.connect()

                async def renewal(connection: Any = connection, lease: Lease = lease) -> bool:
                    return await lease_rows.renew_lease(
                        connection, lease.pool, lease.epoch, lease.holder, seconds=timings.lease_seconds
                    )

                try:
                    answer: bool | None = await Limited(renewal, timings.renew_seconds)
                    connected = True
                except (Lost, TimeoutError):
                    answer = None
                    connected = False
                lease.renewed(answer, sent=sent, trust_seconds=timings.trust_seconds)
            for pool, lease in list(self._leases.items()):
                if not lease.valid():
                    del self._leases[pool]
                    lease.end()

    def drop(self, lease: Lease) -> None:
        lease.end()
        if self._leases.get(lease.pool) is lease:
            del self._leases[lease.pool]

    def term_ended(self, term: Term) -> None:
        if self.terms.get(term.pool.id) is term:
            del self.terms[term.pool.id]
        self.drop(term.pool.lease)

    def reacquire_above(self, pool: int, epoch: int) -> None:
        self._above[pool] = max(epoch, self._above.get(pool, 0))
        term = self.terms.get(pool)
        if term is not None:
            term.pool.lease.end()

    def leads(self, pool: int) -> Term | None:
        term = self.terms.get(pool)
        return term if term is not None and term.is_ready else None

    # ---- late tasks -------------------------------------------------------------------------------------------------

    async def _expire(self) -> None:
        """Mirrors `run_expiry` of `server/housekeeping.py`, on every server."""
        while True:
            await self.sleep(EXPIRY_SECONDS)
            try:
                expired = await expire_tasks(self.connect())
            except Lost:
                continue
            for pool in sorted({pool for _, pool in expired.tasks}):
                self.hint_cancelled(pool, [], [task for task, own in expired.tasks if own == pool])
            self.hint_poll(expired.dependent_pools)

    # ---- agents -----------------------------------------------------------------------------------------------------

    def connected(self, end: End, pool: int) -> None:
        """An agent opened a control connection."""
        self.ends[end] = None
        term = self.leads(pool)
        if term is None:
            end.link.close(end, wire.CLOSE_NOT_LEADER)
        else:
            self.spawn(term.serve(end))

    # ---- hints to the pool's leader, wherever it is; the nemesis may lose them --------------------------------------

    def _hint(self, pool: int, *hints: Callable[[News], None]) -> None:
        if self._deliver(pool, hints):
            return
        for other in self.world.servers:
            if other is not None and other is not self and pool in other.terms:
                if self.kernel.random.random() >= self.world.options.lost_hints:
                    self.kernel.after(0.005, other.post, other._deliver, pool, hints)
                return

    def _deliver(self, pool: int, hints: Iterable[Callable[[News], None]]) -> bool:
        term = self.leads(pool)
        if term is not None:
            for hint in hints:
                hint(term.news)
        return term is not None

    def hint_arrived(self, pool: int, tasks: list[ReadyTask]) -> None:
        term = self.leads(pool)
        if term is not None:
            term.news.arrived(tasks, self.world.shapes)
            return
        for task in tasks:
            self._hint(pool, lambda other, task=task: other.hinted(task.tenant, task.order))  # type: ignore[misc]

    def hint_timed(self, pool: int, tenant: int, seconds: float) -> None:
        self._hint(pool, lambda news: news.timer(tenant, seconds))

    def hint_cancelled(self, pool: int, running: list[tuple[int, int]], waiting: list[int]) -> None:
        self._hint(pool, lambda news: news.stop(running, "cancel"), lambda news: news.gone(waiting))

    def hint_reordered(self, pool: int, tenant: int, task: int, order: OrderKey) -> None:
        self._hint(pool, lambda news: news.gone([task]), lambda news: news.hinted(tenant, order))

    def hint_paused(self, pool: int, running: list[tuple[int, int]]) -> None:
        self._hint(pool, lambda news: news.stop(running, "pause"))

    def hint_poll(self, pools: Iterable[int]) -> None:
        for pool in sorted(pools):
            self._hint(pool, News.poll_soon)

    async def recall_paused(self, pool: int, *, tenant: int | None, node: int | None) -> int | None:
        """Mirrors `withdraw` of `api/leaders.py`: how many attempts may still begin; None if no leader answers."""
        term = self.leads(pool)
        if term is not None:
            return await recall_paused(term.pool, tenant=tenant, node=node)
        answers: list[int | None] = []
        for other in self.world.servers:
            led = None if other is None or other is self else other.leads(pool)
            if other is not None and led is not None:
                if self.kernel.random.random() >= self.world.options.lost_hints:
                    other.spawn(_answer(led, tenant, node, answers))
                break
        deadline = self.clock() + ASK_SECONDS
        while not answers and self.clock() < deadline:
            await self.sleep(0.05)
        return answers[0] if answers else None


async def _answer(term: Term, tenant: int | None, node: int | None, answers: list[int | None]) -> None:
    answers.append(await recall_paused(term.pool, tenant=tenant, node=node))
