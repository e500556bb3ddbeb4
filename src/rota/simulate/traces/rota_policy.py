"""The product's core as a policy: jobs become ready tasks, decisions become orders.

The only adapter between the simulator and production code. A prefetched start becomes an order when the core grants it;
a preempted task becomes ready again at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.decide.core import Core
from rota.decide.messages import (
    AttemptEnded,
    Decision,
    NodeJoined,
    ShapeKnown,
    Start,
    TasksGone,
    TasksReady,
    TenantKnown,
)
from rota.model.queue import ReadyTask, work_hash
from rota.model.resources import Shape
from rota.simulate.traces.drive import Begin, Stop
from rota.simulate.traces.workload import Job, Workload

NORMAL_LANE = 1
AT_MOST = 1000  # decisions in one plan, as in a leader


class Prefetched:
    """Starts that wait on their node. The node begins them in order, as the core grants them."""

    def __init__(self, core: Core) -> None:
        self._running = core.state.running
        self._queues: dict[int, list[int]] = {}  # node → tasks

    def add(self, node: int, task: int) -> None:
        self._queues.setdefault(node, []).append(task)

    def remove(self, task: int) -> bool:
        """Whether the task was waiting."""
        for queue in self._queues.values():
            if task in queue:
                queue.remove(task)
                return True
        return False

    def granted(self) -> list[tuple[int, int]]:
        """(task, node) of the tasks that may begin now."""
        found: list[tuple[int, int]] = []
        for node, queue in list(self._queues.items()):
            while queue and self._running[queue[0]].granted:
                found.append((queue.pop(0), node))
            if not queue:
                del self._queues[node]
        return found


class RotaPolicy:
    """`Policy` over `rota.decide`. It sends the core the events that a leader would send, and no others."""

    def __init__(self, workload: Workload) -> None:
        self.core = Core()
        self._behind = Prefetched(self.core)
        self._started: dict[int, ReadyTask] = {}
        for number, demand in enumerate(workload.shapes):
            self.core.apply(ShapeKnown(number + 1, Shape(demand)), 0)
        for machine in workload.machines:
            self.core.apply(NodeJoined(machine.id, machine.capacity, {}), 0)
        for tenant in sorted({job.tenant for job in workload.jobs}):
            self.core.apply(TenantKnown(tenant, 1, None, None), 0)

    def ready(self, jobs: Sequence[Job], now_us: int) -> None:
        self.core.apply(TasksReady([task_of(job) for job in jobs]), now_us)

    def ended(self, job: Job, now_us: int) -> None:
        del self._started[job.id]
        self.core.apply(AttemptEnded(job.id, job.run_us), now_us)

    def gone(self, job: Job, now_us: int) -> None:
        """The job is withdrawn before it started."""
        self.core.apply(TasksGone([job.id]), now_us)

    def estimate(self, job: Job, now_us: int) -> int | None:
        """The start that `rota why` estimates."""
        found = self.core.explain(job.id, now_us, {})
        return None if found is None else found.estimated_start_us

    def plan(self, now_us: int) -> list[Begin | Stop]:
        """Plans until there are no more decisions: a preempted task frees its resources at once here."""
        orders: list[Begin | Stop] = []
        while True:
            decisions = self.core.plan(now_us, AT_MOST)
            for decision in decisions:
                self._take(decision, now_us, orders)
            orders += [
                Begin(task, node, self.core.state.running[task].devices) for task, node in self._behind.granted()
            ]
            if not decisions:
                return orders

    def _take(self, decision: Decision, now_us: int, orders: list[Begin | Stop]) -> None:
        if isinstance(decision, Start):
            self._started[decision.task.id] = decision.task
            if decision.behind:
                self._behind.add(decision.node, decision.task.id)
            else:
                orders.append(Begin(decision.task.id, decision.node, decision.devices))
            return
        stopped = decision.task
        task = self._started.pop(stopped)
        if not self._behind.remove(stopped):
            orders.append(Stop(stopped))
        self.core.apply(AttemptEnded(stopped, None), now_us)
        again = msgspec.structs.replace(task, version=task.version + 1)
        self.core.apply(TasksReady([again]), now_us)


def plan_all(core: Core, now_us: int) -> list[Decision]:
    decisions: list[Decision] = []
    while True:
        found = core.plan(now_us, AT_MOST)
        decisions += found
        if len(found) < AT_MOST:
            return decisions


def task_of(job: Job, work: int | None = None) -> ReadyTask:
    return ReadyTask(
        id=job.id,
        version=1,
        tenant=job.tenant,
        lane=NORMAL_LANE,
        urgency=0,
        start_by_us=job.start_by_us,
        cap_ms=job.cap_ms,
        shape=job.shape + 1,
        work=work_hash(0, f"job {job.id}") if work is None else work,  # a trace does not say which jobs are alike
    )
