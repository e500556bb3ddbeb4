"""Fills a pool with tasks that never end: how much of its GPUs can a policy allocate before fragmentation stops it?

Tasks come in file order, repeatedly, until the requested GPUs reach a multiple of the pool's. A task that does not fit
when it comes is refused, as in the paper that came with the openb traces.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import cycle

from rota.model.resources import Resources
from rota.simulate.traces.baselines import Filler
from rota.simulate.traces.drive import Begin, fragmentation, usual_demands
from rota.simulate.traces.free_resources import FreeResources, gpu_milli_of
from rota.simulate.traces.policies import FILLING, ROTA
from rota.simulate.traces.rota_policy import RotaPolicy
from rota.simulate.traces.workload import BadTrace, Job, Progress, Report, Workload

_YEAR_MS = 365 * 86_400_000  # the cap of a task that never ends


@dataclass(frozen=True, slots=True)
class FillResult(Report):
    policy: str
    gpu_allocated_share: float
    gpu_requested_share: float
    cpu_allocated_share: float
    tasks: int
    refused: int
    fragmentation: float
    policy_seconds: float


def fill(workload: Workload, name: str, *, times: float, seed: int, progress: Progress = None) -> FillResult:
    if name not in FILLING:
        raise BadTrace(f"there is no policy {name!r} for filling a pool; there are {', '.join(FILLING)}")
    capacity = sum(gpu_milli_of(machine.capacity) for machine in workload.machines)
    if not capacity:
        raise BadTrace(f"{workload.name}: --fill counts GPUs, and no machine has any")
    if not any(gpu_milli_of(workload.shapes[job.shape]) for job in workload.jobs):
        raise BadTrace(f"{workload.name}: --fill counts GPUs, and no task asks for any")
    filler = _CoreFiller(workload) if name == ROTA else Filler(workload, name, seed)
    requested = allocated = allocated_cpu = tasks = refused = 0
    spent = 0.0
    for job in cycle(workload.jobs):
        if requested >= times * capacity:
            break
        tasks += 1
        demand = workload.shapes[job.shape]
        requested += gpu_milli_of(demand)
        before = time.process_time()
        machine = filler.assign(replace(job, id=tasks, submit_us=tasks, run_us=0, cap_ms=_YEAR_MS), demand)
        spent += time.process_time() - before
        if machine is None:
            refused += 1
            continue
        allocated += gpu_milli_of(demand)
        allocated_cpu += demand.cpu_milli
        if progress is not None and tasks % 200 == 0:
            progress(int(requested / 1000), int(times * capacity / 1000))
    cpu = sum(machine.capacity.cpu_milli for machine in workload.machines)
    return FillResult(
        policy=name,
        gpu_allocated_share=allocated / capacity,
        gpu_requested_share=requested / capacity,
        cpu_allocated_share=allocated_cpu / cpu,
        tasks=tasks,
        refused=refused,
        fragmentation=fragmentation(filler.all_free, usual_demands(workload)),
        policy_seconds=spent,
    )


class _CoreFiller:
    def __init__(self, workload: Workload) -> None:
        self.all_free = [FreeResources(machine) for machine in workload.machines]
        self._free = {free.machine: free for free in self.all_free}
        self._policy = RotaPolicy(workload)

    def assign(self, job: Job, demand: Resources) -> int | None:
        self._policy.ready([job], job.submit_us)
        for order in self._policy.plan(job.submit_us):
            if isinstance(order, Begin):
                self._free[order.machine].take(demand, order.devices)
                return order.machine
        self._policy.gone(job, job.submit_us)
        return None
