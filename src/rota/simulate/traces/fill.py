"""Fills a pool with tasks that never leave: how much of its GPUs can a policy give out before they are in pieces?

Tasks come in file order, over and over, until the GPUs asked for reach so many times what the pool has. A task that
finds no room when it comes is refused, as in the paper that came with the openb traces.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle

from rota.model.resources import Resources
from rota.simulate.traces.baselines import Filler
from rota.simulate.traces.drive import Begin, fragmentation, usual_demands
from rota.simulate.traces.policies import FILLING, ROTA
from rota.simulate.traces.product import Product
from rota.simulate.traces.rooms import Room, gpu_milli_of
from rota.simulate.traces.workload import BadTrace, Job, Workload

_YEAR_MS = 365 * 86_400_000  # "never leaves", said as a cap


@dataclass(frozen=True, slots=True)
class Filled:
    policy: str
    gpu_allocated_share: float
    gpu_asked_share: float
    cpu_allocated_share: float
    tasks: int
    refused: int
    fragmentation: float
    policy_seconds: float


def fill(
    workload: Workload, name: str, *, times: float, seed: int, progress: Callable[[int, int], None] | None = None
) -> Filled:
    if name not in FILLING:
        raise BadTrace(f"there is no policy {name!r} for filling a pool; there are {', '.join(FILLING)}")
    capacity = sum(gpu_milli_of(machine.capacity) for machine in workload.machines)
    if not capacity:
        raise BadTrace(f"{workload.name}: --fill counts GPUs, and no machine has any")
    if not any(gpu_milli_of(workload.shapes[job.shape]) for job in workload.jobs):
        raise BadTrace(f"{workload.name}: --fill counts GPUs, and no task asks for any")
    place, rooms = _by_core(workload) if name == ROTA else _by_baseline(workload, name, seed)
    asked = given = given_cpu = tasks = refused = 0
    spent = 0.0
    for job in cycle(workload.jobs):
        if asked >= times * capacity:
            break
        tasks += 1
        demand = workload.shapes[job.shape]
        asked += gpu_milli_of(demand)
        before = time.process_time()
        machine = place(replace(job, id=tasks, submit_us=tasks, run_us=0, cap_ms=_YEAR_MS), demand)
        spent += time.process_time() - before
        if machine is None:
            refused += 1
            continue
        given += gpu_milli_of(demand)
        given_cpu += demand.cpu_milli
        if progress is not None and tasks % 200 == 0:
            progress(int(asked / 1000), int(times * capacity / 1000))
    cpu = sum(machine.capacity.cpu_milli for machine in workload.machines)
    return Filled(
        policy=name,
        gpu_allocated_share=given / capacity,
        gpu_asked_share=asked / capacity,
        cpu_allocated_share=given_cpu / cpu,
        tasks=tasks,
        refused=refused,
        fragmentation=fragmentation(rooms, usual_demands(workload)),
        policy_seconds=spent,
    )


Place = Callable[[Job, Resources], int | None]


def _by_core(workload: Workload) -> tuple[Place, list[Room]]:
    product = Product(workload)
    rooms = {machine.id: Room(machine) for machine in workload.machines}

    def place(job: Job, demand: Resources) -> int | None:
        product.ready([job], job.submit_us)
        for order in product.plan(job.submit_us):
            if isinstance(order, Begin):
                rooms[order.machine].take(demand, order.devices)
                return order.machine
        product.gone(job, job.submit_us)
        return None

    return place, list(rooms.values())


def _by_baseline(workload: Workload, name: str, seed: int) -> tuple[Place, list[Room]]:
    filler = Filler(workload, name, seed)
    full: set[int] = set()  # nothing ever leaves: a shape that found no room once finds none later

    def place(job: Job, demand: Resources) -> int | None:
        if job.shape in full:
            return None
        machine = filler.place(demand)
        if machine is None:
            full.add(job.shape)
        return machine

    return place, filler.rooms
