"""The product's own core as a policy: jobs become ready tasks, decisions become orders.

This is all that stands between the simulator and production code. A start that waits behind others on its node becomes
an order when the core's books say it was granted; a preempted task is handed back as ready at once.
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
AT_MOST = 1000  # decisions in one plan, as a leader asks for them


class Behind:
    """Starts that wait on their node for room. The node begins them in order, when the core's books grant it."""

    def __init__(self, core: Core) -> None:
        self._running = core.state.running
        self._queues: dict[int, list[int]] = {}  # node → tasks

    def add(self, node: int, task: int) -> None:
        self._queues.setdefault(node, []).append(task)

    def remove(self, task: int) -> bool:
        """Whether it was waiting here."""
        for queue in self._queues.values():
            if task in queue:
                queue.remove(task)
                return True
        return False

    def granted(self) -> list[tuple[int, int]]:
        """(task, node) of those that may begin now."""
        found: list[tuple[int, int]] = []
        for node, queue in list(self._queues.items()):
            while queue and self._running[queue[0]].granted:
                found.append((queue.pop(0), node))
            if not queue:
                del self._queues[node]
        return found


class Product:
    """`Policy` over `rota.decide`. It tells the core what a leader would, no more."""

    def __init__(self, workload: Workload) -> None:
        self.core = Core()
        self._behind = Behind(self.core)
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
        """The job is taken back before it started."""
        self.core.apply(TasksGone([job.id]), now_us)

    def plan(self, now_us: int) -> list[Begin | Stop]:
        """Asks again until nothing comes: a preempted task frees room at once here."""
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


def task_of(job: Job) -> ReadyTask:
    return ReadyTask(
        id=job.id,
        version=1,
        tenant=job.tenant,
        lane=NORMAL_LANE,
        urgency=0,
        start_by_us=job.start_by_us,
        cap_ms=job.cap_ms,
        shape=job.shape + 1,
        work=work_hash(0, f"job {job.id}"),  # a trace says nothing of which jobs are alike
    )
