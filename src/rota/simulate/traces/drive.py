"""Runs a workload through a policy in virtual time and records every attempt.

A job runs its real run time; a policy sees arrivals, ends and caps, and answers with orders. The driver keeps its own
record of every machine (`free_resources.py`): an order that does not fit ends the simulation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from rota.model.resources import Resources
from rota.simulate.traces.free_resources import FreeResources, gpu_milli_of
from rota.simulate.traces.workload import Job, Progress, Workload

_FRAGMENT_SAMPLES = 40  # samples in a run: each one reads all machines
_FRAGMENT_SHAPES = 30  # the most common demands


class Begin(NamedTuple):
    job: int
    machine: int
    devices: tuple[int, ...] = ()  # its GPUs; empty: the driver chooses


class Stop(NamedTuple):
    """The attempt ends without a result; the policy will begin the job again."""

    job: int


class Policy(Protocol):
    """A scheduler. `plan` is called once for each instant, after all events of that instant."""

    def ready(self, jobs: Sequence[Job], now_us: int) -> None: ...
    def ended(self, job: Job, now_us: int) -> None: ...
    def plan(self, now_us: int) -> list[Begin | Stop]: ...


Estimate = Callable[[Job, int], int | None]  # (job, now) → its estimated start; None: nothing is told


class Span(NamedTuple):
    """One attempt on one machine."""

    job: int
    machine: int
    start_us: int
    end_us: int
    finished: bool  # False: it was stopped


class Level(NamedTuple):
    """The pool's use from this moment on."""

    at_us: int
    cpu_milli: int  # in use
    gpu_milli: int
    waiting: int


@dataclass(slots=True)
class Run:
    """The record of a run, enough to compute any figure."""

    workload: Workload
    spans: list[Span] = field(default_factory=list)  # by end
    first_start_us: dict[int, int] = field(default_factory=dict)
    end_us: dict[int, int] = field(default_factory=dict)
    levels: list[Level] = field(default_factory=list)
    fragmentation: list[float] = field(default_factory=list)
    decisions: int = 0
    stops: int = 0
    told_us: dict[int, int | None] = field(default_factory=dict)  # the start that was estimated at submission
    policy_seconds: float = 0.0  # processor time inside the policy


def drive(
    workload: Workload,
    policy: Policy,
    *,
    until_us: int | None = None,
    progress: Progress = None,
    estimate: Estimate | None = None,
    estimates: int = 0,
) -> Run:
    """From the first arrival to the last end, or to `until_us`. About `estimates` jobs are asked for at submission.

    1. The next instant: an arrival or an end. 2. The policy receives all ends, then all arrivals of that instant.
    3. The policy plans. 4. Its orders are checked and carried out.
    """
    pool = _Pool(workload)
    run, jobs = pool.run, workload.jobs
    arrived, instants, usual = 0, 0, usual_demands(workload)
    every = max(1, 2 * len(jobs) // _FRAGMENT_SAMPLES)
    stride = max(1, len(jobs) // max(1, estimates))
    while arrived < len(jobs) or pool.ends:
        now_us = jobs[arrived].submit_us if arrived < len(jobs) else pool.ends[0][0]
        if pool.ends:
            now_us = min(now_us, pool.ends[0][0])
        if until_us is not None and now_us > until_us:
            break
        ended = pool.end_all(now_us)
        first = arrived
        while arrived < len(jobs) and jobs[arrived].submit_us <= now_us:
            arrived += 1
        pool.waiting += arrived - first
        if not ended and arrived == first:
            continue  # the attempt that would have ended now was stopped earlier
        before = time.process_time()
        for job in ended:
            policy.ended(job, now_us)
        if arrived > first:
            policy.ready(jobs[first:arrived], now_us)
        if estimate is not None:
            run.policy_seconds += time.process_time() - before
            for job in jobs[first:arrived]:
                if job.id % stride == 0:
                    run.told_us[job.id] = estimate(job, now_us)
            before = time.process_time()
        orders = policy.plan(now_us)
        run.policy_seconds += time.process_time() - before
        for order in orders:
            pool.carry_out(order, now_us)
        pool.note_level(now_us)
        instants += 1
        if instants % every == 0:
            run.fragmentation.append(fragmentation(list(pool.free.values()), usual))
        if progress is not None and instants % 1000 == 0:
            progress(len(run.end_us), len(jobs))
    pool.close(until_us)
    return run


class _Pool:
    """The real state of the pool, independent of the policy's own."""

    def __init__(self, workload: Workload) -> None:
        self.run = Run(workload)
        self.ends: list[tuple[int, int, int]] = []  # when, job, which attempt
        self.waiting = 0
        self._jobs = {job.id: job for job in workload.jobs}
        self._shapes = workload.shapes
        self.free = {machine.id: FreeResources(machine) for machine in workload.machines}
        self._running: dict[int, tuple[int, int, tuple[int, ...], int]] = {}  # job → machine, start, devices, attempt
        self._attempts: dict[int, int] = {}
        self._cpu_milli = self._gpu_milli = 0

    def end_all(self, now_us: int) -> list[Job]:
        ended: list[Job] = []
        while self.ends and self.ends[0][0] <= now_us:
            _, number, attempt = heappop(self.ends)
            running = self._running.get(number)
            if running is not None and running[3] == attempt:
                self._leave(number, now_us, finished=True)
                self.run.end_us[number] = now_us
                ended.append(self._jobs[number])
        return ended

    def carry_out(self, order: Begin | Stop, now_us: int) -> None:
        number = order.job
        if isinstance(order, Stop):
            self._leave(number, now_us, finished=False)
            self.run.stops += 1
            self.waiting += 1
            return
        job = self._jobs[number]
        assert number not in self._running, f"job {number} was begun twice"
        assert number not in self.run.end_us, f"job {number} was begun after its end"
        assert job.submit_us <= now_us, f"job {number} was begun before it was submitted"
        demand = self._shapes[job.shape]
        devices = self.free[order.machine].take(demand, order.devices)
        attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
        self._running[number] = (order.machine, now_us, devices, attempt)
        heappush(self.ends, (now_us + job.run_us, number, attempt))
        self._cpu_milli += demand.cpu_milli
        self._gpu_milli += gpu_milli_of(demand)
        self.waiting -= 1
        self.run.first_start_us.setdefault(number, now_us)
        self.run.decisions += 1

    def _leave(self, number: int, now_us: int, *, finished: bool) -> None:
        machine, start_us, devices, _ = self._running.pop(number)
        demand = self._shapes[self._jobs[number].shape]
        self.free[machine].give(demand, devices)
        self._cpu_milli -= demand.cpu_milli
        self._gpu_milli -= gpu_milli_of(demand)
        self.run.spans.append(Span(number, machine, start_us, now_us, finished))

    def note_level(self, now_us: int) -> None:
        level = Level(now_us, self._cpu_milli, self._gpu_milli, self.waiting)
        levels = self.run.levels
        if levels and levels[-1].at_us == now_us:
            levels[-1] = level
        else:
            levels.append(level)

    def close(self, until_us: int | None) -> None:
        """Records attempts that still run when the simulation is cut off, up to the cut."""
        if until_us is not None:
            for number in list(self._running):
                self._leave(number, until_us, finished=False)


class Usual(NamedTuple):
    """The common demands of a workload, each with its share of the jobs."""

    gpus: bool  # the pool has GPUs, so they are counted instead of CPU
    demands: list[tuple[Resources, float]]


def usual_demands(workload: Workload) -> Usual:
    gpus = any(machine.capacity.gpus for machine in workload.machines)
    counts: dict[int, int] = {}
    for job in workload.jobs:
        if not gpus or gpu_milli_of(workload.shapes[job.shape]):
            counts[job.shape] = counts.get(job.shape, 0) + 1
    commonest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_FRAGMENT_SHAPES]
    total = sum(count for _, count in commonest)
    return Usual(gpus, [(workload.shapes[shape], count / total) for shape, count in commonest])


def fragmentation(all_free: Sequence[FreeResources], usual: Usual) -> float:
    """The share of the free resources that are on machines where a usual job does not fit.

    Counted in GPUs if the pool has any, else in CPU. 0 if nothing is free.
    """
    amounts = [free.gpu_milli() if usual.gpus else free.cpu_milli for free in all_free]
    total = sum(amounts)
    if not total or not usual.demands:
        return 0.0
    lost = 0.0
    for demand, share in usual.demands:
        lost += share * sum(amount for amount, free in zip(amounts, all_free, strict=True) if not free.fits(demand))
    return lost / total
