"""News of a pool for its leader: from admission on this server node, and hints from others. Never waits.

Any of it may be lost: the slow poll reads the same from rows a little later.
"""

from __future__ import annotations

from rota.decide.messages import ShapeKnown, TasksGone
from rota.dispatch.pool import PoolState
from rota.dispatch.watch import send_cap, stop_attempt
from rota.model.queue import OrderKey, ReadyTask
from rota.model.resources import Shape


class News:
    def __init__(self, pool: PoolState) -> None:
        self._pool = pool

    def arrived(self, tasks: list[ReadyTask], shapes: dict[int, Shape]) -> None:
        pool = self._pool
        for number, shape in shapes.items():
            if number not in pool.core.state.shapes:
                pool.core.apply(ShapeKnown(number, shape), pool.now_us())
        pool.loader.add(tasks, pool.now_us())
        pool.wakes.cycle.set()

    def hinted(self, tenant: int, order: OrderKey) -> None:
        self._pool.loader.hinted(tenant, order)
        self._pool.wakes.cycle.set()

    def timer(self, tenant: int, seconds: float) -> None:
        """A task of the tenant comes due in so many seconds."""
        self._pool.loader.timer(seconds, tenant)
        self._pool.wakes.poll.set()

    def poll_soon(self) -> None:
        """Rows changed that only the slow poll reads: dependents to release, places of keys, cool-downs."""
        self._pool.wakes.poll_soon()

    def stop(self, attempts: list[tuple[int, int]], reason: str) -> None:
        for task, attempt in attempts:
            stop_attempt(self._pool, task, attempt, reason)

    def recap(self, caps: list[tuple[int, int, int]]) -> None:
        """(task, attempt, cap in ms): the new caps of running attempts."""
        for task, attempt, cap_ms in caps:
            send_cap(self._pool, task, attempt, cap_ms)

    def gone(self, tasks: list[int]) -> None:
        """Cancelled, held or edited while waiting: a start would be refused."""
        self._pool.core.apply(TasksGone(tasks), self._pool.now_us())
