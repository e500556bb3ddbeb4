"""Loading: keeps the top K ready tasks of a pool in the core, and leaves the millions in the database.

Each tenant has a cursor in its own order: every task up to it is in memory (or started), tasks past it may not be.
Arrivals move it back, and a slow poll begins again at the head, so the pool is served even if every hint is lost. Reads
that begin at a cursor skip the dead entries at the head of the index.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rota.decide import ready
from rota.decide.core import Core
from rota.decide.messages import ShapeKnown, TasksReady, TenantKnown
from rota.model.queue import BEFORE_ALL, OrderKey, ReadyTask
from rota.store import queue
from rota.store.database import AnyConnection
from rota.store.queue import Wanted
from rota.store.shapes import read_shapes

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
HEAD_RESET_SECONDS = 10.0
FEW = 50
LEAST_SHARE = 200


@dataclass(slots=True)
class Reach:
    """How far one tenant's queue has been read."""

    tenant: int
    cursor: OrderKey = BEFORE_ALL
    exhausted: bool = False  # no ready task is past the cursor, as far as is known
    head_read_at: float = 0.0
    known: bool = False  # the core knows its weight and its limits
    left: int = 0  # how many arrivals were left in the database: a read under way may have missed the last ones


class Loader:
    def __init__(
        self,
        core: Core,
        pool: int,
        *,
        ready_limit: int,
        least_share: int = LEAST_SHARE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._pool = pool
        self._limit = ready_limit
        self._least_share = least_share
        self._clock = clock
        self._reaches: dict[int, Reach] = {}
        self.next_timer_at: float | None = None  # monotonic
        self.promoted: set[int] = set()  # tasks that have become urgent: no event tells of them yet

    # ---- arrivals -------------------------------------------------------------------------------------------------

    def add(self, tasks: Iterable[ReadyTask], now_us: int) -> None:
        """Ready rows that were just committed: into memory if they are before the cursor, else read later."""
        accepted = []
        for task in tasks:
            reach = self._reach(task.tenant)
            order = ready.order_of(self._core.state, task.order)
            count = self._ready_count(task.tenant)
            if order <= reach.cursor:
                if count < 2 * self._share():
                    accepted.append(task)
                else:
                    reach.cursor, reach.exhausted = (*order[:4], order[4] - 1), False
            elif reach.known and reach.exhausted and count + len(accepted) < self._share():
                accepted.append(task)
                reach.cursor = order
            else:
                reach.exhausted = False
                reach.left += 1
        if accepted:
            self._core.apply(TasksReady(accepted), now_us)

    def hinted(self, tenant: int, order: OrderKey) -> None:
        """Another server node admitted a task of the tenant at this position of its order."""
        reach, order = self._reach(tenant), ready.order_of(self._core.state, order)
        reach.cursor = min(reach.cursor, (*order[:4], order[4] - 1))
        reach.exhausted = False
        reach.left += 1

    def timer(self, seconds: float, tenant: int | None = None) -> None:
        """A task, of this tenant, comes due in so many seconds."""
        if tenant is not None:
            self._reach(tenant)
        at = self._clock() + max(0.0, seconds)
        if self.next_timer_at is None or at < self.next_timer_at:
            self.next_timer_at = at

    def forget_cursors(self) -> None:
        """The ranks of lanes have changed, so cursors mean nothing any more: every queue is read from its head."""
        for reach in self._reaches.values():
            reach.cursor, reach.exhausted = BEFORE_ALL, False

    # ---- reading --------------------------------------------------------------------------------------------------

    def wants(self) -> bool:
        """Whether `fill` would read anything: some tenant runs low and has more in the database."""
        low = self._share() // 2
        return any(not reach.exhausted and self._ready_count(tenant) <= low for tenant, reach in self._reaches.items())

    async def fill(self, connection: AnyConnection, now_us: int) -> None:
        share = self._share()
        wanted = [
            Wanted(tenant, reach.cursor, share - self._ready_count(tenant))
            for tenant, reach in self._reaches.items()
            if not reach.exhausted and self._ready_count(tenant) <= share // 2
        ]
        if any(not self._reaches[want.tenant].known for want in wanted):
            await self._learn_tenants(connection, now_us)
        if not wanted:
            return
        left = {want.tenant: self._reaches[want.tenant].left for want in wanted}
        state = self._core.state
        ranks = {lane: ready.rank_of(state, lane) for lane in state.lanes}
        tasks = await queue.load_ready(connection, self._pool, wanted, ranks)
        await self.learn_shapes(connection, (task.shape for task in tasks), now_us)
        last: dict[int, OrderKey] = {}
        counts: dict[int, int] = {}
        for task in tasks:
            order = ready.order_of(state, task.order)
            last[task.tenant] = max(order, last.get(task.tenant, order))
            counts[task.tenant] = counts.get(task.tenant, 0) + 1
        for want in wanted:
            reach = self._reaches[want.tenant]
            if reach.cursor != want.cursor:
                continue  # an arrival moved it during the read: the next read begins there
            if want.tenant in last:
                reach.cursor = max(reach.cursor, last[want.tenant])
            if counts.get(want.tenant, 0) < want.amount and reach.left == left[want.tenant]:
                reach.exhausted = True
        self._core.apply(TasksReady(tasks), now_us)

    async def fill_due(self, connection: AnyConnection, now_us: int) -> None:
        """Takes in tasks that have come due, a bounded number for each tenant; the rest follows as these start."""
        tenants = list(self._reaches)
        self.next_timer_at = None
        if not tenants:
            return
        if not all(reach.known for reach in self._reaches.values()):
            await self._learn_tenants(connection, now_us)
        amount = self._share()
        due = await queue.load_due(connection, self._pool, tenants, [LONG_AGO] * len(tenants), amount)
        await self.learn_shapes(connection, (task.shape for task, _ in due), now_us)
        self._core.apply(TasksReady([task for task, _ in due]), now_us)
        self.promoted.update(task.id for task, untold in due if untold)
        for seconds in (await queue.next_timers(connection, self._pool, tenants)).values():
            self.timer(seconds)
        if len(due) >= amount:
            self.timer(0.2)

    async def poll(self, connection: AnyConnection, now_us: int) -> None:
        """The slow poll: reads which tenants have tasks and the head of each queue, without relying on hints."""
        for reach in await self._learn_tenants(connection, now_us):
            if self._ready_count(reach.tenant) < FEW or self._clock() - reach.head_read_at > HEAD_RESET_SECONDS:
                reach.cursor, reach.exhausted, reach.head_read_at = BEFORE_ALL, False, self._clock()
        await self.fill(connection, now_us)
        await self.fill_due(connection, now_us)

    async def _learn_tenants(self, connection: AnyConnection, now_us: int, also: Sequence[int] = ()) -> list[Reach]:
        """Reads weights and limits of tenants with live tasks. The core must know them before a tenant's first task."""
        reaches = []
        for tenant in await queue.active_tenants(connection, self._pool, also):
            self._core.apply(
                TenantKnown(
                    tenant.id,
                    tenant.weight,
                    tenant.cpu_milli_limit,
                    tenant.memory_bytes_limit,
                    tenant.running_limit,
                    10_000 * tenant.urgent_percent,
                    tenant.paused,
                    tenant.longest_cap_seconds * 1_000_000,
                ),
                now_us,
            )
            reaches.append(self._reach(tenant.id))
            reaches[-1].known = True
        return reaches

    async def learn_all_tenants(self, connection: AnyConnection, now_us: int) -> None:
        """After a change of the rules: also tenants that have no task now, whose next one may come at any moment."""
        await self._learn_tenants(connection, now_us, also=list(self._reaches))

    async def learn_shapes(self, connection: AnyConnection, shapes: Iterable[int], now_us: int) -> None:
        unknown = sorted(set(shapes) - self._core.state.shapes.keys())
        if unknown:
            for number, shape in (await read_shapes(connection, unknown)).items():
                self._core.apply(ShapeKnown(number, shape), now_us)

    def _reach(self, tenant: int) -> Reach:
        reach = self._reaches.get(tenant)
        if reach is None:
            reach = self._reaches[tenant] = Reach(tenant)
        return reach

    def _ready_count(self, tenant: int) -> int:
        known = self._core.state.tenants.get(tenant)
        return known.ready if known else 0

    def _share(self) -> int:
        return max(self._least_share, self._limit // max(1, len(self._reaches)))
