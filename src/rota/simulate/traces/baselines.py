"""Well-known policies to compare the core with. They share no code with it.

`fcfs` starts jobs in order of arrival and stops at the first that does not fit. `fcfs-easy` lets later jobs pass if
they do not delay the first (EASY backfilling). `sjf-easy` does the same in order of caps, shortest first. Machines are
tried in order; on one machine this is the textbook algorithm.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rota.model.resources import Resources
from rota.simulate.traces.drive import Begin, Stop
from rota.simulate.traces.free_resources import FreeResources
from rota.simulate.traces.workload import Job, Workload

Order = Callable[[Job], tuple[int, ...]]


def arrival(job: Job) -> tuple[int, ...]:
    return (job.submit_us, job.id)


def shortest(job: Job) -> tuple[int, ...]:
    return (job.cap_ms, job.submit_us, job.id)


class _Attempt(NamedTuple):
    job: Job
    machine: int
    devices: tuple[int, ...]
    expected_end_us: int


class _Reservation(NamedTuple):
    """When and where the first job in the queue will fit, and what will be free beside it."""

    at_us: int
    machine: int
    beside: FreeResources


class Backfill:
    """A queue in one order, with or without backfilling."""

    def __init__(self, workload: Workload, order: Order, *, easy: bool) -> None:
        self._order = order
        self._easy = easy
        self._shapes = workload.shapes
        self._free = {machine.id: FreeResources(machine) for machine in workload.machines}
        self._queue: list[tuple[tuple[int, ...], Job]] = []
        self._running: dict[int, _Attempt] = {}

    def ready(self, jobs: Sequence[Job], now_us: int) -> None:
        for job in jobs:
            insort(self._queue, (self._order(job), job), key=lambda entry: entry[0])

    def ended(self, job: Job, now_us: int) -> None:
        attempt = self._running.pop(job.id)
        self._free[attempt.machine].give(self._shapes[job.shape], attempt.devices)

    def plan(self, now_us: int) -> list[Begin | Stop]:
        orders: list[Begin | Stop] = []
        started = 0
        for _, job in self._queue:
            machine = self._first_fit(job, None)
            if machine is None:
                break
            orders.append(self._begin(job, machine, now_us))
            started += 1
        del self._queue[:started]
        if self._easy and len(self._queue) > 1:
            self._backfill(now_us, orders)
        return orders

    def _backfill(self, now_us: int, orders: list[Begin | Stop]) -> None:
        reservation = self._reserve(self._queue[0][1])
        if reservation is None:
            return
        kept = [self._queue[0]]
        full: set[int] = set()  # shapes that fit on no machine but the reserved one
        for entry in self._queue[1:]:
            job = entry[1]
            machine = None if job.shape in full else self._first_fit(job, reservation.machine)
            if machine is None:
                full.add(job.shape)
                machine = self._beside(job, reservation, now_us)
            if machine is None:
                kept.append(entry)
            else:
                orders.append(self._begin(job, machine, now_us))
        self._queue = kept

    def _beside(self, job: Job, reservation: _Reservation, now_us: int) -> int | None:
        """The reserved machine, if the job ends in time or leaves enough for the first job."""
        demand = self._shapes[job.shape]
        if not self._free[reservation.machine].fits(demand):
            return None
        if now_us + job.cap_ms * 1000 > reservation.at_us:
            if not reservation.beside.fits(demand):
                return None
            reservation.beside.take(demand)
        return reservation.machine

    def _reserve(self, first: Job) -> _Reservation | None:
        """Frees running jobs in the order of their caps until the first job fits."""
        demand = self._shapes[first.shape]
        all_free: dict[int, FreeResources] = {}
        for attempt in sorted(self._running.values(), key=lambda attempt: (attempt.expected_end_us, attempt.job.id)):
            free = all_free.get(attempt.machine)
            if free is None:
                free = all_free[attempt.machine] = self._free[attempt.machine].copy()
            free.give(self._shapes[attempt.job.shape], attempt.devices)
            if free.fits(demand):
                free.take(demand)
                return _Reservation(attempt.expected_end_us, attempt.machine, free)
        return None

    def _first_fit(self, job: Job, but: int | None) -> int | None:
        demand = self._shapes[job.shape]
        return next((number for number, free in self._free.items() if number != but and free.fits(demand)), None)

    def _begin(self, job: Job, machine: int, now_us: int) -> Begin:
        devices = self._free[machine].take(self._shapes[job.shape])
        self._running[job.id] = _Attempt(job, machine, devices, now_us + job.cap_ms * 1000)
        return Begin(job.id, machine)


class Filler:
    """Assigns tasks that never end: to the first machine that fits, the fullest one, or a random one."""

    def __init__(self, workload: Workload, how: str, seed: int) -> None:
        self.all_free = [FreeResources(machine) for machine in workload.machines]
        self._how = how
        self._chance = random.Random(seed)
        self._full: set[int] = set()  # nothing ends: a shape that did not fit once never fits later
        self._largest = [
            max(1, max(getattr(machine.capacity, name) for machine in workload.machines))
            for name in ("cpu_milli", "memory_bytes", "gpus")
        ]

    def assign(self, job: Job, demand: Resources) -> int | None:
        """The machine, or None if the task is refused for good."""
        if job.shape in self._full:
            return None
        fitting = (free for free in self.all_free if free.fits(demand))
        chosen = next(fitting, None) if self._how == "first-fit" else self._choose(list(fitting))
        if chosen is None:
            self._full.add(job.shape)
            return None
        chosen.take(demand)
        return chosen.machine

    def _choose(self, fitting: list[FreeResources]) -> FreeResources | None:
        if not fitting:
            return None
        if self._how == "random":
            return self._chance.choice(fitting)
        cpu, memory, gpus = self._largest

        def left(free: FreeResources) -> tuple[float, int]:
            return free.cpu_milli / cpu + free.memory_bytes / memory + free.gpu_milli() / 1000 / gpus, free.machine

        return min(fitting, key=left)
