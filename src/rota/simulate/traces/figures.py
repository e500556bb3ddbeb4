"""Computes figures from the record of a run: waits, slowdown, utilisation, fairness, late starts.

They use the driver's record and never a policy's own state. Time lost in a preempted attempt counts as waiting: a job
waits whenever it is in the system and its last attempt is not running.
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rota.simulate.traces.drive import Run
from rota.simulate.traces.free_resources import amounts_of
from rota.simulate.traces.late_starts import unavoidable
from rota.simulate.traces.workload import Report

SHORT_RUN_US = 10_000_000  # slowdown counts a shorter job as if it had run this long
_POINTS = 60  # of a curve in the report
_WINDOWS = 20  # in which fairness among busy tenants is measured


@dataclass(frozen=True, slots=True)
class Figures(Report):
    jobs: int
    sequences: int
    finished: int
    never_started: int
    mean_wait_seconds: float
    median_wait_seconds: float
    p99_wait_seconds: float
    longest_wait_seconds: float
    average_bounded_slowdown: float
    utilisation: float
    utilisation_over_time: list[tuple[float, float]]  # seconds, share; of the first sequence
    waiting_over_time: list[tuple[float, int]]
    gpu_allocated_share: float | None
    fragmentation: float
    jain_index: float
    late_starts: int
    late_starts_unavoidable: int | None  # None: not computed, there are too many jobs
    preemptions: int
    decisions: int
    decisions_per_second: float
    policy_cpu_seconds: float
    peak_memory_mib: float


def figures(runs: Sequence[Run]) -> Figures:
    """Figures over all sequences of a workload. Figures of jobs average jobs; figures of the pool average sequences."""
    waits: list[float] = []
    slowdowns: list[float] = []
    late = 0
    excused: int | None = 0
    for run in runs:
        for job in run.workload.jobs:
            end_us = run.end_us.get(job.id)
            if end_us is not None:
                waits.append((end_us - job.submit_us - job.run_us) / 1e6)
                slowdowns.append(bounded_slowdown(end_us - job.submit_us, job.run_us))
            late += run.first_start_us.get(job.id, job.submit_us) > job.start_by_us
        found = unavoidable(run)
        excused = None if found is None or excused is None else excused + found
    spent = sum(run.policy_seconds for run in runs)
    decisions = sum(run.decisions + run.stops for run in runs)
    jobs = sum(len(run.workload.jobs) for run in runs)
    gpus = [gpu_share(run) for run in runs]
    return Figures(
        jobs=jobs,
        sequences=len(runs),
        finished=len(waits),
        never_started=jobs - sum(len(run.first_start_us) for run in runs),
        mean_wait_seconds=statistics.fmean(waits) if waits else 0.0,
        median_wait_seconds=quantile(waits, 0.5),
        p99_wait_seconds=quantile(waits, 0.99),
        longest_wait_seconds=max(waits, default=0.0),
        average_bounded_slowdown=statistics.fmean(slowdowns) if slowdowns else 0.0,
        utilisation=statistics.fmean(utilisation(run) for run in runs),
        utilisation_over_time=curve(runs[0], _POINTS),
        waiting_over_time=queue_curve(runs[0], _POINTS),
        gpu_allocated_share=None if None in gpus else statistics.fmean(share for share in gpus if share is not None),
        fragmentation=statistics.fmean(_mean(run.fragmentation) for run in runs),
        jain_index=statistics.fmean(jain_among_busy(run) for run in runs),
        late_starts=late,
        late_starts_unavoidable=excused,
        preemptions=sum(run.stops for run in runs),
        decisions=decisions,
        decisions_per_second=decisions / spent if spent else 0.0,
        policy_cpu_seconds=spent,
        peak_memory_mib=peak_memory_mib(),
    )


def bounded_slowdown(in_system_us: int, run_us: int) -> float:
    return max(1.0, in_system_us / max(run_us, SHORT_RUN_US))


def utilisation(run: Run) -> float:
    """The mean share of the pool in use, from the first arrival to the last end: of GPUs if it has any, else CPU."""
    gpus, capacity = _main(run)
    return _used(run, gpus=gpus) / capacity if capacity else 0.0


def gpu_share(run: Run) -> float | None:
    gpus, capacity = _main(run)
    return _used(run, gpus=True) / capacity if gpus else None


def curve(run: Run, points: int) -> list[tuple[float, float]]:
    """Utilisation over time: the mean of each of `points` equal intervals."""
    gpus, capacity = _main(run)
    stretches = _stretches(run, points, [level.gpu_milli if gpus else level.cpu_milli for level in run.levels])
    return [(at, round(mean / capacity, 4) if capacity else 0.0) for at, mean in stretches]


def queue_curve(run: Run, points: int) -> list[tuple[float, int]]:
    return [(at, round(mean)) for at, mean in _stretches(run, points, [level.waiting for level in run.levels])]


def jain(amounts: Sequence[float]) -> float:
    """1 when all have the same, 1/n when one has all."""
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


def jain_among_busy(run: Run) -> float:
    """Jain's index over the tenants' resource-time, among tenants with work waiting.

    Measured in windows: in each, only tenants whose queue was never empty count. The mean over windows with at least
    two such tenants; 1 if there is none.
    """
    if len({job.tenant for job in run.workload.jobs}) < 2 or not run.levels:
        return 1.0
    start, end = run.levels[0].at_us, run.levels[-1].at_us
    edges = [start + (end - start) * index // _WINDOWS for index in range(_WINDOWS + 1)]
    busy = _busy_windows(run, edges)
    got = resource_time(run, edges)
    indices = [
        jain([got[index].get(tenant, 0.0) for tenant in tenants])
        for index, tenants in enumerate(busy)
        if len(tenants) > 1
    ]
    return statistics.fmean(indices) if indices else 1.0


def resource_time(run: Run, edges: Sequence[int]) -> list[dict[int, float]]:
    """In each window, tenant → dominant share of the pool × seconds."""
    share = _shares(run)
    jobs = {job.id: job for job in run.workload.jobs}
    got: list[dict[int, float]] = [{} for _ in edges[1:]]
    width = max(1, (edges[-1] - edges[0]) // (len(edges) - 1))
    for span in run.spans:
        job = jobs[span.job]
        for index in range(max(0, (span.start_us - edges[0]) // width - 1), len(got)):
            if edges[index] >= span.end_us:
                break
            seconds = (min(span.end_us, edges[index + 1]) - max(span.start_us, edges[index])) / 1e6
            if seconds > 0:
                got[index][job.tenant] = got[index].get(job.tenant, 0.0) + seconds * share[job.shape]
    return got


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def peak_memory_mib() -> float:
    """Of this process, simulator included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _busy_windows(run: Run, edges: Sequence[int]) -> list[list[int]]:
    """The tenants with at least one job waiting throughout each window."""
    changes: dict[int, list[tuple[int, int]]] = {}
    for job in run.workload.jobs:
        begun = run.first_start_us.get(job.id, edges[-1] + 1)
        if begun > job.submit_us:
            own = changes.setdefault(job.tenant, [])
            own += ((job.submit_us, 1), (begun, -1))
    busy: list[list[int]] = [[] for _ in edges[1:]]
    for tenant in sorted(changes):
        since, waiting = 0, 0
        for at, step in sorted(changes[tenant], key=lambda change: (change[0], -change[1])):
            if waiting == 0:
                since = at
            waiting += step
            if waiting == 0:
                for index, (left, right) in enumerate(pairwise(edges)):
                    if since <= left and right <= at:
                        busy[index].append(tenant)
    return busy


def _shares(run: Run) -> list[float]:
    """The dominant share of each shape: its largest share of any resource of the pool."""
    capacities = [amounts_of(machine.capacity) for machine in run.workload.machines]
    total = [sum(amounts) for amounts in zip(*capacities, strict=True)]
    return [
        max(amount / whole if whole else 0.0 for amount, whole in zip(amounts_of(demand), total, strict=True))
        for demand in run.workload.shapes
    ]


def _main(run: Run) -> tuple[bool, int]:
    machines = run.workload.machines
    gpus = sum(machine.capacity.gpus for machine in machines) * 1000
    return bool(gpus), gpus or sum(machine.capacity.cpu_milli for machine in machines)


def _used(run: Run, *, gpus: bool) -> float:
    """The mean amount in use over the run, in thousandths."""
    total = 0
    for level, after in pairwise(run.levels):
        total += (level.gpu_milli if gpus else level.cpu_milli) * (after.at_us - level.at_us)
    length = run.levels[-1].at_us - run.levels[0].at_us if run.levels else 0
    return total / length if length else 0.0


def _stretches(run: Run, points: int, values: Sequence[int]) -> list[tuple[float, float]]:
    """(seconds, mean) of equal intervals."""
    if len(run.levels) < 2:
        return []
    start, end = run.levels[0].at_us, run.levels[-1].at_us
    width = max(1, -(-(end - start) // points))
    sums = [0.0] * (-(-(end - start) // width) or 1)
    for index, (level, after) in enumerate(pairwise(run.levels)):
        at = level.at_us
        while at < after.at_us:
            stretch = (at - start) // width
            until = min(after.at_us, start + (stretch + 1) * width)
            sums[stretch] += values[index] * (until - at)
            at = until
    lengths = [min(width, end - start - index * width) for index in range(len(sums))]
    return [
        ((start + index * width) / 1e6, total / length)
        for index, (total, length) in enumerate(zip(sums, lengths, strict=True))
        if length > 0
    ]


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0
