"""Loading: keeps the top K ready tasks of a pool in the core, and leaves the millions in the database.

Per tenant there is a cursor in the tenant's own order: everything up to it is in memory (or started), what lies past it
may not be. Arrivals lower it, a slow poll starts again at the head, so the pool is served even when every hint is
lost. Reading with a cursor keeps dead entries at the head of the index from costing anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

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
    """How far one tenant has been read."""

    tenant: int
    cursor: OrderKey = BEFORE_ALL
    exhausted: bool = False  # nothing ready lies past the cursor, as far as we were told
    head_read_at: float = 0.0
    known: bool = False  # the core has heard of its weight and its limits
    left: int = 0  # arrivals left in the database, counted: one that comes while we read is not in what we read


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

    # ---- arrivals -------------------------------------------------------------------------------------------------

    def add(self, tasks: Iterable[ReadyTask], now_us: int) -> None:
        """Rows that were just committed and are ready: into memory where they belong there, else remembered."""
        accepted = []
        for task in tasks:
            reach = self._reach(task.tenant)
            order = task.order
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
        """Another node admitted something for the tenant, this far forward in its order."""
        reach = self._reach(tenant)
        reach.cursor = min(reach.cursor, (*order[:4], order[4] - 1))
        reach.exhausted = False
        reach.left += 1

    def know(self, tenant: int) -> None:
        """The tenant has live tasks, if only timed ones."""
        self._reach(tenant)

    def timer(self, seconds: float) -> None:
        """Something comes due in so many seconds."""
        at = self._clock() + max(0.0, seconds)
        if self.next_timer_at is None or at < self.next_timer_at:
            self.next_timer_at = at

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
        tasks = await queue.load_ready(connection, self._pool, wanted)
        await self.learn_shapes(connection, (task.shape for task in tasks), now_us)
        last: dict[int, ReadyTask] = {}
        counts: dict[int, int] = {}
        for task in tasks:
            last[task.tenant] = task
            counts[task.tenant] = counts.get(task.tenant, 0) + 1
        for want in wanted:
            reach = self._reaches[want.tenant]
            if reach.cursor != want.cursor:
                continue  # an arrival moved it while we read: read again from there
            if want.tenant in last:
                reach.cursor = max(reach.cursor, last[want.tenant].order)
            if counts.get(want.tenant, 0) < want.amount and reach.left == left[want.tenant]:
                reach.exhausted = True
        self._core.apply(TasksReady(tasks), now_us)

    async def fill_due(self, connection: AnyConnection, now_us: int) -> None:
        """Takes in what has come due, so much a tenant; the rest follows as these start."""
        tenants = list(self._reaches)
        self.next_timer_at = None
        if not tenants:
            return
        if not all(reach.known for reach in self._reaches.values()):
            await self._learn_tenants(connection, now_us)
        amount = self._share()
        found = await queue.load_due(connection, self._pool, tenants, [LONG_AGO] * len(tenants), amount)
        await self.learn_shapes(connection, (task.shape for task, _ in found), now_us)
        self._core.apply(TasksReady([task for task, _ in found]), now_us)
        for seconds in (await queue.next_timers(connection, self._pool, tenants)).values():
            self.timer(seconds)
        if len(found) >= amount:
            self.timer(0.2)

    async def poll(self, connection: AnyConnection, now_us: int) -> None:
        """The slow poll: which tenants there are, and the head of each, whatever we were told or not."""
        for reach in await self._learn_tenants(connection, now_us):
            if self._ready_count(reach.tenant) < FEW or self._clock() - reach.head_read_at > HEAD_RESET_SECONDS:
                reach.cursor, reach.exhausted, reach.head_read_at = BEFORE_ALL, False, self._clock()
        await self.fill(connection, now_us)
        await self.fill_due(connection, now_us)

    async def _learn_tenants(self, connection: AnyConnection, now_us: int) -> list[Reach]:
        """Weights and limits of the tenants that have live tasks. A tenant's limits come before its first task."""
        reaches = []
        for tenant in await queue.active_tenants(connection, self._pool):
            self._core.apply(
                TenantKnown(
                    tenant.id,
                    tenant.weight,
                    tenant.cpu_milli_limit,
                    tenant.memory_bytes_limit,
                    tenant.running_limit,
                    10_000 * tenant.urgent_percent,
                    tenant.paused,
                ),
                now_us,
            )
            reaches.append(self._reach(tenant.id))
            reaches[-1].known = True
        return reaches

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
