"""Well-known policies to compare with, written apart from the core: they share no line with what they judge.

`fcfs` starts jobs in order of arrival and waits where the first does not fit. `fcfs-easy` lets later jobs pass if they
do not delay the first (EASY backfilling). `sjf-easy` does the same with the shortest cap first. Machines are tried in
order; on one machine this is the textbook algorithm.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rota.model.resources import Resources
from rota.simulate.traces.drive import Begin, Stop
from rota.simulate.traces.rooms import Room
from rota.simulate.traces.workload import Job, Workload

Order = Callable[[Job], tuple[int, ...]]


def arrival(job: Job) -> tuple[int, ...]:
    return (job.submit_us, job.id)


def shortest(job: Job) -> tuple[int, ...]:
    return (job.cap_ms, job.submit_us, job.id)


@dataclass(slots=True)
class _Held:
    job: Job
    machine: int
    devices: tuple[int, ...]
    expected_end_us: int


@dataclass(slots=True)
class _Reservation:
    """When and where the first job in the queue will fit, and what is left there beside it at that moment."""

    at_us: int
    machine: int
    beside: Room


class Backfill:
    """A queue in one order, with or without backfilling."""

    def __init__(self, workload: Workload, order: Order, *, easy: bool) -> None:
        self._order = order
        self._easy = easy
        self._shapes = workload.shapes
        self._rooms = {machine.id: Room(machine) for machine in workload.machines}
        self._queue: list[tuple[tuple[int, ...], Job]] = []
        self._held: dict[int, _Held] = {}

    def ready(self, jobs: Sequence[Job], now_us: int) -> None:
        for job in jobs:
            insort(self._queue, (self._order(job), job), key=lambda entry: entry[0])

    def ended(self, job: Job, now_us: int) -> None:
        held = self._held.pop(job.id)
        self._rooms[held.machine].give(self._shapes[job.shape], held.devices)

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
        full: set[int] = set()  # shapes for which no machine but the reserved one has room
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
        """The reserved machine, if the job is gone in time or leaves enough for the first."""
        demand = self._shapes[job.shape]
        if not self._rooms[reservation.machine].fits(demand):
            return None
        if now_us + job.cap_ms * 1000 > reservation.at_us:
            if not reservation.beside.fits(demand):
                return None
            reservation.beside.take(demand)
        return reservation.machine

    def _reserve(self, first: Job) -> _Reservation | None:
        """Runs time forward by the caps of what runs, until the job fits somewhere."""
        demand = self._shapes[first.shape]
        rooms: dict[int, Room] = {}
        for held in sorted(self._held.values(), key=lambda held: (held.expected_end_us, held.job.id)):
            room = rooms.get(held.machine)
            if room is None:
                room = rooms[held.machine] = self._rooms[held.machine].copy()
            room.give(self._shapes[held.job.shape], held.devices)
            if room.fits(demand):
                room.take(demand)
                return _Reservation(held.expected_end_us, held.machine, room)
        return None

    def _first_fit(self, job: Job, but: int | None) -> int | None:
        demand = self._shapes[job.shape]
        return next((number for number, room in self._rooms.items() if number != but and room.fits(demand)), None)

    def _begin(self, job: Job, machine: int, now_us: int) -> Begin:
        devices = self._rooms[machine].take(self._shapes[job.shape])
        self._held[job.id] = _Held(job, machine, devices, now_us + job.cap_ms * 1000)
        return Begin(job.id, machine)


class Filler:
    """Where a task that never leaves is put: the first machine with room, the tightest one, or any."""

    def __init__(self, workload: Workload, how: str, seed: int) -> None:
        self.rooms = [Room(machine) for machine in workload.machines]
        self._how = how
        self._chance = random.Random(seed)
        self._largest = [
            max(1, max(getattr(machine.capacity, name) for machine in workload.machines))
            for name in ("cpu_milli", "memory_bytes", "gpus")
        ]

    def place(self, demand: Resources) -> int | None:
        """The machine it went to, or None: refused, and not tried again."""
        if self._how == "first-fit":
            chosen = next((room for room in self.rooms if room.fits(demand)), None)
        else:
            fitting = [room for room in self.rooms if room.fits(demand)]
            chosen = None if not fitting else self._choose(fitting)
        if chosen is None:
            return None
        chosen.take(demand)
        return chosen.machine

    def _choose(self, fitting: list[Room]) -> Room:
        if self._how == "random":
            return self._chance.choice(fitting)
        cpu, memory, gpus = self._largest
        return min(
            fitting,
            key=lambda room: (
                room.cpu_milli / cpu + room.memory_bytes / memory + room.gpu_milli() / 1000 / gpus,
                room.machine,
            ),
        )
