"""A core in virtual time: tasks arrive, run for as long as they were made to, and end. The smallest possible leader.

    works = Clockwork(nodes=[4])
    big = works.task(cpus=4, runs=10, at=5)
    works.run(until=1000)
    assert works.started[big] <= 30

Seconds everywhere; the core gets microseconds. Ties are taken in the order in which things were planned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush

from rota.decide.core import Core
from rota.decide.messages import (
    AttemptEnded,
    NodeJoined,
    Preempt,
    ShapeKnown,
    Start,
    TasksReady,
    TenantKnown,
)
from rota.decide.policy import Policy
from rota.model.queue import ReadyTask
from rota.model.resources import Resources, Shape
from rota.model.task import Lane
from tests.decide.auditor import audit

SECOND_US = 1_000_000
GIGABYTE = 10**9
AUDIT_EVERY = 20  # plans: a recount costs more than a decision


class Clockwork:
    def __init__(self, nodes: list[float], *, memory: int = 64, policy: Policy | None = None) -> None:
        self.core = Core(policy)
        self.now_us = 0
        self.started: dict[int, float] = {}  # task → when, in seconds
        self.ended: dict[int, float] = {}
        self._held: dict[int, float] = defaultdict(float)  # tenant → dominant share × seconds, of what has ended
        self.asked: list[int] = []  # who was asked to give way
        self.promised: dict[int, float] = {}  # late task → the time its reservation named first
        self.on_end: Callable[[int], None] | None = None  # a hook: a stream goes on when one of its tasks ends
        self._happenings: list[tuple[int, int, ReadyTask | int]] = []
        self._order = self._plans = 0
        self._runs_us: dict[int, int] = {}
        self._tasks: dict[int, ReadyTask] = {}
        self._shapes: dict[tuple[int, int], int] = {}
        self._capacity = Resources(cpu_milli=int(1000 * sum(nodes)), memory_bytes=len(nodes) * memory * GIGABYTE)
        for number, cpus in enumerate(nodes, 1):
            capacity = Resources(cpu_milli=int(cpus * 1000), memory_bytes=memory * GIGABYTE)
            self.core.apply(NodeJoined(number, capacity, {}), 0)

    def tenant(self, number: int, *, weight: int = 1) -> None:
        self.core.apply(TenantKnown(number, weight, None, None), self.now_us)

    def task(
        self,
        *,
        runs: float,
        at: float | None = None,
        tenant: int = 1,
        cpus: float = 1,
        memory: int = 0,
        cap: float | None = None,
        start_by: float | None = None,
        lane: int = Lane.NORMAL,
        name: str | None = None,
        preemptible: bool = False,
    ) -> int:
        """A task that becomes ready at a time (now unless given). Its cap is exact unless another is given."""
        number = len(self._tasks) + 1
        at_us = self.now_us if at is None else int(at * SECOND_US)
        start_by_us = at_us if start_by is None else int(start_by * SECOND_US)
        work = number if name is None else _work(name)  # nothing is learned of a task without a name
        task = ReadyTask(
            number,
            0,
            tenant,
            lane,
            0,
            start_by_us,
            int((runs if cap is None else cap) * 1000),
            self._shape(int(cpus * 1000), memory * GIGABYTE),
            work,
            preemptible=preemptible,
        )
        self._tasks[number] = task
        self._runs_us[number] = int(runs * SECOND_US)
        self._push(at_us, task)
        return number

    def run(self, *, until: float) -> None:
        """Everything that happens up to then. What happens at one moment is decided upon once."""
        end_us = int(until * SECOND_US)
        while self._happenings and self._happenings[0][0] <= end_us:
            self.now_us = self._happenings[0][0]
            while self._happenings and self._happenings[0][0] == self.now_us:
                self._take(heappop(self._happenings)[2])
            self._plan()
        self.now_us = end_us
        self._plan()

    def holds(self, tenant: int) -> float:
        """What the tenant has held so far: the dominant share of the pool × seconds, running tasks included."""
        return self._held[tenant] + sum(
            self.share(number) * (self.now_us / SECOND_US - self.started[number]) for number in self._running(tenant)
        )

    def was_given(self, tenant: int) -> float:
        """The same, with what its running tasks will still hold: they were chosen already."""
        return self._held[tenant] + sum(self.worth(number) for number in self._running(tenant))

    def worth(self, number: int) -> float:
        """What a task holds from its start to its end."""
        return self.share(number) * self._runs_us[number] / SECOND_US

    def share(self, number: int) -> float:
        demand = self.core.state.shapes[self._tasks[number].shape].resources
        return dominant_share_ppm(demand, self._capacity) / 1_000_000

    def owner(self, number: int) -> int:
        return self._tasks[number].tenant

    def knows(self, name: str, *, seconds: float, tenant: int) -> None:
        """Such work has run before and took so long."""
        self.core.state.run_us[tenant, _work(name)] = int(seconds * SECOND_US)

    def _running(self, tenant: int) -> list[int]:
        return [number for number in self.core.state.running if self._tasks[number].tenant == tenant]

    def _take(self, happening: ReadyTask | int) -> None:
        if isinstance(happening, ReadyTask):
            self.core.apply(TasksReady([happening]), self.now_us)
            return
        if happening in self.ended:
            return  # it gave way before
        self._end(happening)
        self.ended[happening] = self.now_us / SECOND_US
        if self.on_end is not None:
            self.on_end(happening)

    def _end(self, number: int) -> None:
        ran = self.now_us / SECOND_US - self.started[number]
        self._held[self._tasks[number].tenant] += self.share(number) * ran
        ran_us = self.now_us - int(self.started[number] * SECOND_US)
        self.core.apply(AttemptEnded(number, ran_us), self.now_us)

    def _plan(self) -> None:
        for decision in self.core.plan(self.now_us, 1000):
            if isinstance(decision, Start):
                number = decision.task.id
                assert not decision.behind, "nothing here is short enough to wait behind"
                self.started[number] = self.now_us / SECOND_US
                self._push(self.now_us + self._runs_us[number], number)
            elif isinstance(decision, Preempt):
                self.asked.append(decision.task)
        for place in self.core.state.reservations.values():
            if self._tasks[place.task].start_by_us <= self.now_us:
                self.promised.setdefault(place.task, place.at_us / SECOND_US)
        self._plans += 1
        if self._plans % AUDIT_EVERY == 0:
            self.core.state.check()
            audit(self.core.state)

    def _push(self, at_us: int, happening: ReadyTask | int) -> None:
        self._order += 1
        heappush(self._happenings, (at_us, self._order, happening))

    def _shape(self, cpu_milli: int, memory_bytes: int) -> int:
        key = (cpu_milli, memory_bytes)
        if key not in self._shapes:
            self._shapes[key] = len(self._shapes) + 1
            shape = Shape(Resources(cpu_milli=cpu_milli, memory_bytes=memory_bytes))
            self.core.apply(ShapeKnown(self._shapes[key], shape), self.now_us)
        return self._shapes[key]


def _work(name: str) -> int:
    return -sum(map(ord, name))


def dominant_share_ppm(demand: Resources, capacity: Resources) -> int:
    """The largest share, in millionths, that a demand takes of any one resource of `capacity`."""
    pairs = [
        (demand.cpu_milli, capacity.cpu_milli),
        (demand.memory_bytes, capacity.memory_bytes),
        (demand.disk_bytes, capacity.disk_bytes),
        (1000 * demand.gpus + demand.gpu_milli, 1000 * capacity.gpus),
        (demand.iops, capacity.iops),
        (demand.bandwidth_kbit, capacity.bandwidth_kbit),
        (demand.ports, capacity.ports),
    ]
    pairs += [(amount, capacity.custom.get(name, 0)) for name, amount in demand.custom.items()]
    return max((asked * 1_000_000 // has for asked, has in pairs if asked and has), default=0)
