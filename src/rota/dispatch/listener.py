"""What a leader hears of its pool: hand-over from its own node's admission, and hints from others. Never waits.

Every word of it may be lost: rows tell the same a little later.
"""

from __future__ import annotations

from rota.decide.messages import ShapeKnown, TasksGone
from rota.dispatch.caps import tell_cap
from rota.dispatch.pool import PoolState
from rota.dispatch.watch import stop_attempt
from rota.model.queue import OrderKey, ReadyTask
from rota.model.resources import Shape


class Listener:
    def __init__(self, pool: PoolState) -> None:
        self.pool = pool

    def arrived(self, tasks: list[ReadyTask], shapes: dict[int, Shape]) -> None:
        for number, shape in shapes.items():
            if number not in self.pool.core.state.shapes:
                self.pool.core.apply(ShapeKnown(number, shape), self.pool.now_us())
        self.pool.loader.arrived(tasks, self.pool.now_us())
        self.pool.cycle_wake.set()

    def hinted(self, tenant: int, order: OrderKey) -> None:
        self.pool.loader.hinted(tenant, order)
        self.pool.cycle_wake.set()

    def timer(self, tenant: int, seconds: float) -> None:
        """A task of the tenant comes due in so many seconds."""
        self.pool.loader.know(tenant)
        self.pool.loader.timer(seconds)
        self.pool.poll_wake.set()

    def look_again(self) -> None:
        """Rows changed that only a poll reads: children to release, places of keys, cool-downs."""
        self.pool.look_hinted = True
        self.pool.poll_wake.set()

    def cancel(self, attempts: list[tuple[int, int]]) -> None:
        for task, attempt in attempts:
            stop_attempt(self.pool, task, attempt, "cancel")

    def pause(self, attempts: list[tuple[int, int]]) -> None:
        for task, attempt in attempts:
            stop_attempt(self.pool, task, attempt, "pause")

    def recap(self, caps: list[tuple[int, int, int]]) -> None:
        """(task, attempt, cap in ms): what runs may run so long now."""
        for task, attempt, cap_ms in caps:
            tell_cap(self.pool, task, attempt, cap_ms)

    def gone(self, tasks: list[int]) -> None:
        """Cancelled, held back or edited while waiting: not worth planning a start that would be refused."""
        self.pool.core.apply(TasksGone(tasks), self.pool.now_us())
