"""A day of synthetic work through the core in virtual time: does one leader's core keep up, and with how much to spare?

Arrivals vary around the given rate as over a day, compressed into the simulated hours. Tasks differ in tenant, shape
and run time; the run times make the pool `busy` on average. Memory is needed only for tasks that run or wait.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

from rota.decide.core import Core
from rota.decide.messages import AttemptEnded, NodeJoined, ShapeKnown, Start, TasksReady, TenantKnown
from rota.model.queue import ReadyTask
from rota.model.resources import Resources, Shape
from rota.simulate.traces.figures import peak_memory_mib
from rota.simulate.traces.rota_policy import Prefetched, plan_all, task_of
from rota.simulate.traces.workload import Job, Progress, Report

TASKS_A_DAY = 50_000_000  # the goal for one leader
SWING = 0.25  # relative change of the rate, up and down
CYCLE_US = 20_000  # a leader collects events for about this long
_GIB = 2**30
_WORKS = 50  # kinds of work of a tenant, each with its own typical run time


@dataclass(frozen=True, slots=True)
class LoadResult(Report):
    nodes: int
    tenants: int
    rate_per_second: float
    simulated_hours: float
    tasks: int
    started: int
    late_starts: int
    mean_wait_seconds: float
    longest_wait_seconds: float
    most_waiting: int
    utilisation: float
    core_cpu_seconds: float
    core_cpu_seconds_per_simulated_hour: float
    decisions_per_second: float
    cost_growth: float  # cost of a decision: last quarter / second quarter
    keeps_up: bool
    tasks_per_day_possible: int
    times_fifty_million_a_day: float
    peak_memory_mib: float


def shapes() -> list[Resources]:
    """Twenty demands, from a quarter of a core to half a machine, a few with GPUs."""
    plain = [
        Resources(cpu_milli=cpu, memory_bytes=memory * _GIB // 4)
        for cpu, memory in (
            (250, 1), (250, 4), (500, 1), (500, 2), (500, 8), (1000, 2), (1000, 4), (1000, 16), (1500, 6), (2000, 4),
            (2000, 8), (2000, 32), (3000, 12), (4000, 16), (4000, 64), (6000, 24), (8000, 32),
        )
    ]  # fmt: skip
    gpu = [Resources(cpu_milli=2000, memory_bytes=8 * _GIB, gpus=count) for count in (1, 2)]
    return [*plain, *gpu, Resources(cpu_milli=1000, memory_bytes=4 * _GIB, gpu_milli=250)]


def machine(number: int) -> Resources:
    """Three kinds: plain, with more memory, and one in ten with GPUs."""
    kind = number % 10
    if kind == 0:
        return Resources(cpu_milli=32_000, memory_bytes=128 * _GIB, gpus=8)
    return Resources(cpu_milli=16_000, memory_bytes=(128 if kind < 4 else 64) * _GIB)


def prepared(nodes: int, tenants: int, demands: list[Resources]) -> Core:
    core = Core()
    for number, demand in enumerate(demands, 1):
        core.apply(ShapeKnown(number, Shape(demand)), 0)
    for number in range(1, nodes + 1):
        core.apply(NodeJoined(number, machine(number), {}), 0)
    for number in range(1, tenants + 1):
        core.apply(TenantKnown(number, 1, None, None), 0)
    return core


def shape_weights(demands: list[Resources]) -> list[float]:
    """Small demands are common, large ones rare; GPU demands match the share of GPU machines."""
    return [0.3 if demand.gpus or demand.gpu_milli else 4000 / (1000 + demand.cpu_milli) for demand in demands]


def load(
    *, nodes: int, tenants: int, rate: float, hours: float, busy: float, seed: int, progress: Progress = None
) -> LoadResult:
    day = _Day(nodes=nodes, tenants=tenants, rate=rate, hours=hours, busy=busy, seed=seed)
    cycles = max(1, int(hours * 3_600_000_000 / CYCLE_US))
    for cycle in range(cycles):
        day.step(cycle * CYCLE_US)
        if progress is not None and cycle % 500 == 0:
            progress(cycle, cycles)
    return day.result()


class _Day:
    def __init__(self, *, nodes: int, tenants: int, rate: float, hours: float, busy: float, seed: int) -> None:
        self._demands = demands = shapes()
        self._core = prepared(nodes, tenants, demands)
        self._nodes, self._tenants, self._rate = nodes, tenants, rate
        self._horizon_us = int(hours * 3_600_000_000)
        self._chance = random.Random(seed)
        total_cpu = sum(machine(number).cpu_milli for number in range(1, nodes + 1))
        weights = shape_weights(demands)
        self._weights = list(accumulate(weights))
        mean_cpu = sum(w * d.cpu_milli for w, d in zip(weights, demands, strict=True)) / sum(weights)
        self._mean_run_us = busy * total_cpu / (mean_cpu * rate) * 1e6
        self._total_cpu = total_cpu
        self._ends: list[tuple[int, int]] = []
        self._runs: dict[int, tuple[int, int]] = {}  # task → ready at, run time
        self._behind = Prefetched(self._core)
        self._waiting: dict[int, ReadyTask] = {}  # prefetched on a node
        self._owed = 0.0
        self._tasks = self._decided = self._started = self._late = self._most_waiting = 0
        self._wait_us = self._longest_us = 0
        self._used = 0  # CPU thousandths × µs
        self._spent = 0.0
        self._costs: list[tuple[int, float]] = []  # decisions so far, processor time so far

    def step(self, now_us: int) -> None:
        """One cycle of a leader: ends, arrivals, then plans until there is nothing left to decide."""
        ended: list[AttemptEnded] = []
        while self._ends and self._ends[0][0] <= now_us:
            _, number = heappop(self._ends)
            ended.append(AttemptEnded(number, self._runs.pop(number)[1]))
        arrivals = self._arrivals(now_us)
        before = time.process_time()
        for event in ended:
            self._core.apply(event, now_us)
        if arrivals:
            self._core.apply(TasksReady(arrivals), now_us)
        decisions = plan_all(self._core, now_us)
        self._spent += time.process_time() - before
        self._take([decision for decision in decisions if isinstance(decision, Start)], now_us)
        self._most_waiting = max(self._most_waiting, self._tasks - self._started)
        self._costs.append((self._decided, self._spent))

    def _take(self, starts: list[Start], now_us: int) -> None:
        self._decided += len(starts)
        for start in starts:
            if start.behind:
                self._behind.add(start.node, start.task.id)
                self._waiting[start.task.id] = start.task
            else:
                self._begin(start.task, now_us)
        for number, _ in self._behind.granted():
            self._begin(self._waiting.pop(number), now_us)

    def _begin(self, task: ReadyTask, now_us: int) -> None:
        ready_us, run_us = self._runs[task.id]
        heappush(self._ends, (now_us + run_us, task.id))
        wait_us = now_us - ready_us
        self._wait_us += wait_us
        self._longest_us = max(self._longest_us, wait_us)
        self._late += now_us > task.start_by_us
        end_us = min(now_us + run_us, self._horizon_us)
        self._used += self._demands[task.shape - 1].cpu_milli * (end_us - now_us)
        self._started += 1

    def _arrivals(self, now_us: int) -> list[ReadyTask]:
        """The arrivals of this cycle. Run times are distributed as in real traces: many short, few long."""
        day = math.sin(2 * math.pi * now_us / self._horizon_us - math.pi / 2)
        self._owed += self._rate * (1 + SWING * day) * CYCLE_US / 1e6
        count, self._owed = int(self._owed), self._owed % 1
        shapes = self._chance.choices(range(len(self._demands)), cum_weights=self._weights, k=count)
        return [self._arrival(shape, now_us) for shape in shapes]

    def _arrival(self, shape: int, now_us: int) -> ReadyTask:
        chance = self._chance.random
        self._tasks += 1
        run_us = max(1000, int(-self._mean_run_us * math.log(1 - chance())))
        cap_ms = max(1, 2 * run_us // 1000)
        self._runs[self._tasks] = (now_us, run_us)
        job = Job(self._tasks, 1 + int(chance() * self._tenants), shape, now_us, run_us, cap_ms)
        return task_of(job, work=int(chance() * _WORKS))

    def result(self) -> LoadResult:
        hours = self._horizon_us / 3_600_000_000
        speed = self._decided / self._spent if self._spent else 0.0
        per_hour = self._spent / hours
        return LoadResult(
            nodes=self._nodes,
            tenants=self._tenants,
            rate_per_second=self._rate,
            simulated_hours=hours,
            tasks=self._tasks,
            started=self._started,
            late_starts=self._late,
            mean_wait_seconds=self._wait_us / 1e6 / max(1, self._started),
            longest_wait_seconds=self._longest_us / 1e6,
            most_waiting=self._most_waiting,
            utilisation=self._used / (self._total_cpu * self._horizon_us),
            core_cpu_seconds=self._spent,
            core_cpu_seconds_per_simulated_hour=per_hour,
            decisions_per_second=speed,
            cost_growth=_growth(self._costs),
            keeps_up=per_hour < 3600,
            tasks_per_day_possible=int(speed * 86_400),
            times_fifty_million_a_day=speed * 86_400 / TASKS_A_DAY,
            peak_memory_mib=peak_memory_mib(),
        )


def _growth(costs: list[tuple[int, float]]) -> float:
    """The cost of a decision in the last quarter / the second quarter. The first quarter fills the pool."""
    marks = [costs[min(len(costs) - 1, len(costs) * quarter // 4)] for quarter in (1, 2, 3, 4)]
    early = (marks[1][1] - marks[0][1]) / max(1, marks[1][0] - marks[0][0])
    late = (marks[3][1] - marks[2][1]) / max(1, marks[3][0] - marks[2][0])
    return late / early if early else 1.0
