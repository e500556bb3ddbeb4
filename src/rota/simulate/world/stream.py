"""An endless stream of small tasks of one tenant, and a few tasks of another that need a whole node.

The stream begins before each big task and goes on until it has started, also after healing. The owners edit, hold and
cancel their tasks as any others. Nobody gives them caps, so the scheduler has to learn how long they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.model.resources import Resources, Shape
from rota.simulate.world.api import Request
from rota.simulate.world.database.rows import LONGEST_CAP_SECONDS, READY

if TYPE_CHECKING:
    from rota.simulate.world.options import Options
    from rota.simulate.world.world import World

SMALL_TENANT, BIG_TENANT = 101, 102
SMALL_SHAPE, BIG_SHAPE = 101, 102
SMALL_WORK, BIG_WORK = 101, 102
READY_SECONDS = 0.6  # so much work of the stream is always ready
LOOK_SECONDS = 0.4
EARLIER_SECONDS = 4.0


def stream_shapes(options: Options) -> dict[int, Shape]:
    """Small tasks, of which several run on a node, and tasks that need all of the largest node's CPUs."""
    if options.stream is None:
        return {}
    largest = max(capacity.cpu_milli for _, capacity in options.nodes)
    memory = 1024**3 // 2
    return {
        SMALL_SHAPE: Shape(Resources(cpu_milli=largest // options.stream[0], memory_bytes=memory)),
        BIG_SHAPE: Shape(Resources(cpu_milli=largest, memory_bytes=memory)),
    }


class Stream:
    def __init__(self, world: World, stream: tuple[int, float, float]) -> None:
        self._world = world
        self._kernel = world.kernel
        self._chance = world.kernel.random
        at_once, self._shortest, self._longest = stream
        self._enough = 5 + int(READY_SECONDS * at_once * len(world.nodes) / self._shortest)
        self._keys = 0
        self._answered = [True]
        world.clients.owned |= {SMALL_TENANT: [], BIG_TENANT: []}
        world.store.tables.tenants |= {SMALL_TENANT: (1, None, None), BIG_TENANT: (1, None, None)}

    def schedule(self) -> None:
        seconds = self._world.options.seconds
        for at in (self._chance.uniform(2, seconds), seconds + 10):
            self._world.clients.unanswered += 1
            self._kernel.at(at + EARLIER_SECONDS, self._submit_big)
            self._kernel.at(at, self._feed, at + EARLIER_SECONDS + 2)

    def _submit_big(self) -> None:
        self._submit(BIG_TENANT, BIG_SHAPE, BIG_WORK, 1)

    def _feed(self, until: float) -> None:
        """Keeps small tasks ready until then, and while big ones wait that no other lane comes before."""
        auditor = self._world.auditor
        if self._kernel.now > until and all(self._is_outranked(auditor.tasks[task].lane) for task in auditor.waiting):
            return
        rows = self._world.store.tables.queue.values()
        ready = sum(row.task.shape == SMALL_SHAPE and row.state == READY for row in rows)
        if ready < self._enough and self._answered[0]:
            self._world.clients.unanswered += 1
            self._answered = self._submit(SMALL_TENANT, SMALL_SHAPE, SMALL_WORK, self._enough)
        self._kernel.after(LOOK_SECONDS, self._feed, until)

    def _is_outranked(self, lane: int) -> bool:
        """Small tasks of a lane that comes first may rightly hold all that the pool may run, for ever."""
        ranks = {number: 2 * row.level + row.gated for number, row in self._world.store.tables.lanes.items() if number}
        return lane > 2 or ranks.get(lane, 0) > min(ranks.values())

    def _submit(self, tenant: int, shape: int, work: int, count: int) -> list[bool]:
        """With idempotency keys, so that the request is repeated until it is answered."""
        clients, (pool,) = self._world.clients, self._world.options.pools
        tasks = [
            clients.fields(pool, shape=shape)
            | {
                "run_seconds": self._chance.uniform(self._shortest, self._longest),
                "cap_ms": 1000 * LONGEST_CAP_SECONDS,
                "work": work,
            }
            for _ in range(count)
        ]
        keys: list[str | None] = [f"s{self._keys + number}" for number in range(count)]
        self._keys += count
        return clients.send(Request(tenant, tasks, keys))
