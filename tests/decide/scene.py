"""A small language for the core: workers, tasks, and what each worker is expected to be given.

    scene = Scene()
    a, b, c = scene.tasks(3, cpus=2)
    scene.worker(cpus=4).expects(a, b)
    scene.decide()

`decide` plans once, compares every worker with what it expects, and checks the core's own invariants. A worker that
expects nothing must be given nothing, and nobody is asked to give way unless that is expected. Time stands still until
`scene.later(seconds=…)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from rota.decide.core import Core
from rota.decide.messages import (
    AttemptAdopted,
    AttemptEnded,
    LaneKnown,
    NodeClosed,
    NodeJoined,
    NodeLeft,
    PolicyKnown,
    Preempt,
    ShapeKnown,
    Start,
    TasksGone,
    TasksReady,
    TenantKnown,
)
from rota.decide.policy import Policy
from rota.model.node import Closed
from rota.model.queue import AuthorisedAttempt, ReadyTask
from rota.model.resources import Resources, Shape
from rota.model.task import Lane

SECOND_US = 1_000_000
GIGABYTE = 10**9


@dataclass
class Worker:
    scene: Scene
    id: int
    now: list[int] = field(default_factory=list)  # expected starts, in order
    behind: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)  # expected to be asked to give way, in order

    def expects(self, *tasks: ReadyTask) -> Worker:
        """These and no others start here, in this order."""
        self.now = [task.id for task in tasks]
        return self

    def expects_behind(self, *tasks: ReadyTask) -> Worker:
        """These and no others are handed over to wait here, in this order."""
        self.behind = [task.id for task in tasks]
        return self

    def asks(self, *tasks: ReadyTask) -> Worker:
        """These and no others are asked to give way here, in this order."""
        self.asked = [task.id for task in tasks]
        return self

    def drains(self) -> Worker:
        return self.closes(Closed.DRAINING)

    def closes(self, why: Closed) -> Worker:
        self.scene.apply(NodeClosed(self.id, why))
        return self

    def leaves(self) -> Worker:
        self.scene.apply(NodeLeft(self.id))
        return self

    @property
    def free(self) -> Resources:
        return self.scene.core.state.nodes[self.id].free_resources


class Scene:
    def __init__(self, policy: Policy | None = None) -> None:
        self.core = Core(policy)
        self.now_us = 0
        self._workers: list[Worker] = []
        self._shapes: dict[bytes, int] = {}
        self._next_task = 1

    # ---- who is there ---------------------------------------------------------------------------------------------

    def worker(
        self,
        cpus: float = 4,
        memory: int = 8 * GIGABYTE,
        disk: int = 100 * GIGABYTE,
        gpus: int = 0,
        ports: int = 10,
        labels: dict[str, str] | None = None,
        **custom: int,
    ) -> Worker:
        worker = Worker(self, len(self._workers) + 1)
        self._workers.append(worker)
        self.rejoin(worker, cpus, memory, disk, gpus, ports, labels, **custom)
        return worker

    def rejoin(
        self,
        worker: Worker,
        cpus: float = 4,
        memory: int = 8 * GIGABYTE,
        disk: int = 100 * GIGABYTE,
        gpus: int = 0,
        ports: int = 10,
        labels: dict[str, str] | None = None,
        **custom: int,
    ) -> None:
        capacity = Resources(
            cpu_milli=int(cpus * 1000), memory_bytes=memory, disk_bytes=disk, gpus=gpus, ports=ports, custom=custom
        )
        self.apply(NodeJoined(worker.id, capacity, labels or {}))

    def tenant(
        self,
        number: int,
        *,
        cpus: float | None = None,
        memory: int | None = None,
        running: int | None = None,
        weight: int = 1,
        urgent_percent: int = 50,
        paused: bool = False,
    ) -> None:
        """A tenant whose plan caps what it may run at once, and says how much it weighs."""
        milli = None if cpus is None else int(cpus * 1000)
        self.apply(TenantKnown(number, weight, milli, memory, running, urgent_percent * 10_000, paused))

    def plan_bound(self, number: int, *, seconds: int) -> None:
        """The longest cap of a tenant's plan: tasks without a cap of their own have it."""
        self.apply(TenantKnown(number, 1, None, None, longest_cap_us=seconds * SECOND_US))

    def lane(self, number: int, *, level: int, gated: bool = False) -> None:
        """An operator makes a lane, or moves one."""
        self.apply(LaneKnown(number, level, gated))

    def policy(self, policy: Policy) -> None:
        self.apply(PolicyKnown(policy))

    # ---- what there is to do ----------------------------------------------------------------------------------------

    def task(
        self,
        *,
        tenant: int = 1,
        lane: int = Lane.NORMAL,
        priority: int = 0,
        start_by: int = 3600,
        tolerated: bool = True,
        cap: int = 60,
        name: str = "work",
        key: str | None = None,
        limit: int = 1,
        everywhere: bool = False,
        cpus: float = 1,
        memory: int = 0,
        disk: int = 0,
        gpus: float = 0,
        ports: int = 0,
        require: dict[str, str] | None = None,
        preemptible: bool = False,
        avoid: Worker | None = None,
        **custom: int,
    ) -> ReadyTask:
        """A task that is ready. Times are seconds; `start_by` counts from the beginning of the scene.

        `tolerated` False: nobody gave it a tolerance, so that `start_by` only orders it.
        """
        demand = Resources(
            cpu_milli=int(cpus * 1000),
            memory_bytes=memory,
            disk_bytes=disk,
            gpus=int(gpus),
            ports=ports,
            custom=custom,
            gpu_milli=round(gpus % 1 * 1000),
        )
        task = ReadyTask(
            self._next_task,
            0,
            tenant,
            lane,
            -priority,
            start_by * SECOND_US,
            cap * 1000,
            self._shape(Shape(demand, require or {})),
            work_of(name),
            key,
            limit,
            preemptible,
            avoid.id if avoid else None,
            everywhere,
            0 if tolerated else None,
        )
        self._next_task += 1
        self.apply(TasksReady([task]))
        return task

    def tasks(self, count: int, **each: object) -> list[ReadyTask]:
        return [self.task(**each) for _ in range(count)]  # type: ignore[arg-type]

    def knows(self, name: str, *, milliseconds: float, tenant: int = 1, calls_per_grant: int = 1) -> None:
        """Such work has run before and took so long, so many of it sharing one grant."""
        self.core.state.run_us[tenant, work_of(name)] = int(milliseconds * 1000)
        if calls_per_grant > 1:
            self.core.state.calls_per_grant[tenant, work_of(name)] = calls_per_grant

    def holds(self, worker: Worker, task: ReadyTask) -> None:
        """An attempt that an earlier leader had authorised there."""
        self.apply(
            AttemptAdopted(
                AuthorisedAttempt(
                    task.id,
                    1,
                    task.tenant,
                    task.shape,
                    worker.id,
                    1,
                    30_000,
                    task.work,
                    task.concurrency_key,
                    task.concurrency_limit,
                    False,
                    task.lane,
                    task.cap_ms,
                    task.preemptible,
                    self.now_us,
                    task.concurrency_global,
                )
            )
        )

    # ---- what happens -----------------------------------------------------------------------------------------------

    def later(self, *, seconds: float) -> None:
        self.now_us += int(seconds * SECOND_US)

    def promotes(self, task: ReadyTask, lane: int = Lane.URGENT) -> ReadyTask:
        """The same row again, in a more urgent lane."""
        promoted = replace(task, lane=lane)
        self.apply(TasksReady([promoted]))
        return promoted

    def apply(self, event: object) -> None:
        self.core.apply(event, self.now_us)  # type: ignore[arg-type]
        self.core.state.check()

    def ends(self, *tasks: ReadyTask, milliseconds: float | None = None, calls_per_grant: int = 1) -> None:
        run_us = None if milliseconds is None else int(milliseconds * 1000)
        for task in tasks:
            self.apply(AttemptEnded(task.id, run_us, calls_per_grant))

    def cancels(self, *tasks: ReadyTask) -> None:
        self.apply(TasksGone([task.id for task in tasks]))

    def decide(self, at_most: int = 1000) -> list[Start]:
        """One plan; every worker gets what it expects, and nothing else happens. Expectations are used up."""
        decisions = self.core.plan(self.now_us, at_most)
        starts = [decision for decision in decisions if isinstance(decision, Start)]
        asked = [decision for decision in decisions if isinstance(decision, Preempt)]
        self.core.state.check()
        given = {
            worker.id: (
                [start.task.id for start in starts if start.node == worker.id and not start.behind],
                [start.task.id for start in starts if start.node == worker.id and start.behind],
                [preempt.task for preempt in asked if preempt.node == worker.id],
            )
            for worker in self._workers
        }
        assert given == {worker.id: (worker.now, worker.behind, worker.asked) for worker in self._workers}
        for worker in self._workers:
            worker.now, worker.behind, worker.asked = [], [], []
        return starts

    def order(self, at_most: int = 1000) -> list[int]:
        """One plan; the tasks in the order in which they start, wherever."""
        starts = self.core.plan(self.now_us, at_most)
        self.core.state.check()
        return [start.task.id for start in starts if isinstance(start, Start)]

    def _shape(self, shape: Shape) -> int:
        text = repr(shape).encode()
        if text not in self._shapes:
            self._shapes[text] = len(self._shapes) + 1
            self.apply(ShapeKnown(self._shapes[text], shape))
        return self._shapes[text]


def work_of(name: str) -> int:
    return sum(ord(letter) * int(31**place) for place, letter in enumerate(name)) % 2**31
