"""Measures decisions per second on one processor core while many tasks are ready.

First the empty pool is filled, then ends and starts alternate; for every task that starts, another becomes ready, so
the backlog keeps its size. The cost of a decision is the time of planning; a second figure includes arrivals and ends.
Both are measured on the given pool and on one of a tenth of its size, to show how the cost grows.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, fields
from itertools import accumulate

from rota.decide.messages import AttemptEnded, Start, TasksReady
from rota.model.queue import ReadyTask
from rota.simulate.traces.figures import peak_memory_mib
from rota.simulate.traces.load import prepared, shape_weights, shapes
from rota.simulate.traces.rota_policy import plan_all, task_of
from rota.simulate.traces.workload import Job, Progress, Report

_ENDS_A_CYCLE = 200
_TURNS = 20_000  # starts measured on a full pool
_LONG_US = 60_000_000  # run time of an attempt: too long for prefetching


@dataclass(frozen=True, slots=True)
class Burst(Report):
    nodes: int
    tenants: int
    ready: int
    shapes: int
    taking_in_seconds: float  # the first backlog, handed to the core
    filling_decisions: int
    filling_decisions_per_second: float
    turning_decisions: int
    turning_decisions_per_second: float  # with arrivals and ends, as in filling
    decisions_per_second: float  # filling and turning / the time of planning
    with_arrivals_and_ends_per_second: float  # the same decisions / all time in the core
    cost_growth: float  # of turning: last half / first half


def bursts(*, nodes: int, tenants: int, ready: int, seed: int, progress: Progress = None) -> dict[str, object]:
    """The given pool and a tenth of it, with the ratio of their costs of a decision."""
    small = burst(nodes=max(1, nodes // 10), tenants=tenants, ready=ready, seed=seed)
    if progress is not None:
        progress(1, 2)
    large = burst(nodes=nodes, tenants=tenants, ready=ready, seed=seed)
    growth = {
        name: round(getattr(small, name) / getattr(large, name), 4) if getattr(large, name) else None
        for name in (field.name for field in fields(Burst) if field.name.endswith("_per_second"))
    }
    return {
        "decisions_per_second": round(large.decisions_per_second, 1),
        "with_arrivals_and_ends_per_second": round(large.with_arrivals_and_ends_per_second, 1),
        "pools": [small.as_dict(), large.as_dict()],
        "cost_with_ten_times_the_nodes": growth,
        "peak_memory_mib": round(peak_memory_mib(), 1),
    }


def burst(*, nodes: int, tenants: int, ready: int, seed: int) -> Burst:
    crowd = _Crowd(nodes=nodes, tenants=tenants, ready=ready, seed=seed)
    taking = crowd.top_up(0)
    filled, filling = crowd.fill()
    halves = [(0, 0.0), (0, 0.0)]
    cycles = _TURNS // _ENDS_A_CYCLE
    for cycle in range(cycles):
        count, spent = crowd.turn((cycle + 1) * 100_000)
        half = 2 * cycle // cycles
        halves[half] = (halves[half][0] + count, halves[half][1] + spent)
    turned, turning = halves[0][0] + halves[1][0], halves[0][1] + halves[1][1]
    early, late = (seconds / count if count else 0.0 for count, seconds in halves)
    spent = filling + turning
    return Burst(
        nodes=nodes,
        tenants=tenants,
        ready=ready,
        shapes=len(crowd.demands),
        taking_in_seconds=taking,
        filling_decisions=filled,
        filling_decisions_per_second=filled / filling if filling else 0.0,
        turning_decisions=turned,
        turning_decisions_per_second=turned / turning if turning else 0.0,
        decisions_per_second=(filled + turned) / crowd.planning if crowd.planning else 0.0,
        with_arrivals_and_ends_per_second=(filled + turned) / spent if spent else 0.0,
        cost_growth=late / early if early else 1.0,
    )


class _Crowd:
    """A core with a constant number of ready tasks: for every task that starts, another comes."""

    def __init__(self, *, nodes: int, tenants: int, ready: int, seed: int) -> None:
        self.demands = shapes()
        self._weights = list(accumulate(shape_weights(self.demands)))
        self._core = prepared(nodes, tenants, self.demands)
        self._tenants = tenants
        self._ready = ready
        self._chance = random.Random(seed)
        self._handed = self._started = 0
        self._running: list[int] = []
        self.planning = 0.0  # processor time spent in `plan`

    def top_up(self, now_us: int) -> float:
        """Adds ready tasks; returns the processor time that the core needed."""
        tasks = self._tasks(self._ready - (self._handed - self._started), now_us)
        before = time.process_time()
        self._core.apply(TasksReady(tasks), now_us)
        return time.process_time() - before

    def fill(self) -> tuple[int, float]:
        """Starts tasks until nothing more fits; returns decisions and their time."""
        total, spent = 0, 0.0
        while True:
            count, seconds = self._plan(0)
            total, spent = total + count, spent + seconds
            if not count:
                return total, spent
            spent += self.top_up(0)

    def turn(self, now_us: int) -> tuple[int, float]:
        """Ends some tasks and starts others; returns decisions and their time."""
        ended = [_take_any(self._running, self._chance) for _ in range(min(_ENDS_A_CYCLE, len(self._running)))]
        before = time.process_time()
        for number in ended:
            self._core.apply(AttemptEnded(number, _LONG_US), now_us)
        spent = time.process_time() - before
        count, planning = self._plan(now_us)
        return count, spent + planning + self.top_up(now_us)

    def _plan(self, now_us: int) -> tuple[int, float]:
        before = time.process_time()
        decisions = plan_all(self._core, now_us)
        spent = time.process_time() - before
        self.planning += spent
        started = [decision.task.id for decision in decisions if isinstance(decision, Start)]
        self._running += started
        self._started += len(started)
        return len(started), spent

    def _tasks(self, count: int, now_us: int) -> list[ReadyTask]:
        tasks: list[ReadyTask] = []
        for shape in self._chance.choices(range(len(self.demands)), cum_weights=self._weights, k=count):
            self._handed += 1
            cap_ms = self._chance.randint(30_000, 3_600_000)
            job = Job(self._handed, 1 + self._handed % self._tenants, shape, now_us, _LONG_US, cap_ms)
            tasks.append(task_of(job, work=shape + 1))
        return tasks


def _take_any(running: list[int], chance: random.Random) -> int:
    index = chance.randrange(len(running))
    running[index], running[-1] = running[-1], running[index]
    return running.pop()
