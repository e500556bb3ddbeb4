"""One tenant floods the pool while nine others submit less than their share. Does the nine's mean wait grow?

Each of the nine submits a batch once a minute, of slightly less than a tenth of the pool's work per minute. The same
minutes run with and without the flood; the mean wait of the nine may differ only a little.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass

from rota.model.resources import Resources
from rota.simulate.traces.drive import Run, drive
from rota.simulate.traces.figures import jain, jain_among_busy, resource_time
from rota.simulate.traces.policies import policy
from rota.simulate.traces.workload import Job, Machine, Progress, Report, Workload, perfect_cap_ms

FLOODER = 1
STEADY = tuple(range(2, 11))
_MACHINES, _CORES = 10, 10
_MINUTE_US = 60_000_000
_MEAN_RUN_US = 2_000_000


@dataclass(frozen=True, slots=True)
class Fairness(Report):
    policy: str
    flood: int
    steady_tasks: int
    steady_mean_wait_seconds: float
    steady_mean_wait_seconds_without_flood: float
    steady_wait_ratio: float
    flood_started: int
    jain_index: float  # over all ten tenants' resource-time
    jain_index_among_busy: float
    late_starts: int
    utilisation: float


def fairness(
    *, flood: int, minutes: int, share: float, seed: int, name: str = "rota", progress: Progress = None
) -> Fairness:
    until_us = minutes * _MINUTE_US
    quiet_workload = scenario(flood=0, minutes=minutes, share=share, seed=seed)
    quiet = drive(quiet_workload, policy(name, quiet_workload), until_us=until_us, progress=progress)
    workload = scenario(flood=flood, minutes=minutes, share=share, seed=seed)
    run = drive(workload, policy(name, workload), until_us=until_us, progress=progress)
    with_flood, without = steady_wait_seconds(run, until_us), steady_wait_seconds(quiet, until_us)
    got = resource_time(run, [0, until_us])[0]
    return Fairness(
        policy=name,
        flood=flood,
        steady_tasks=len(quiet_workload.jobs),
        steady_mean_wait_seconds=with_flood,
        steady_mean_wait_seconds_without_flood=without,
        steady_wait_ratio=with_flood / without if without else float(with_flood > 0),
        flood_started=sum(job.tenant == FLOODER and job.id in run.first_start_us for job in workload.jobs),
        jain_index=jain([got.get(tenant, 0.0) for tenant in (FLOODER, *STEADY)]),
        jain_index_among_busy=jain_among_busy(run),
        late_starts=sum(
            run.first_start_us.get(job.id, until_us) > job.start_by_us for job in workload.jobs if job.tenant != FLOODER
        ),
        utilisation=sum(got.values()) / (until_us / 1e6),
    )


def scenario(*, flood: int, minutes: int, share: float, seed: int) -> Workload:
    """Each of the nine requests `share` of a tenth of the pool. The flood comes at once, at time 0."""
    chance = random.Random(seed)
    batch = int(share * _MACHINES * _CORES / 10 * _MINUTE_US / _MEAN_RUN_US)
    steady = [
        (minute * _MINUTE_US, tenant, _run_us(chance))
        for minute in range(minutes)
        for _ in range(batch)
        for tenant in STEADY
    ]
    chance = random.Random(f"flood {seed}")
    flooding = [(0, FLOODER, _run_us(chance)) for _ in range(flood)]
    return Workload(
        name="one tenant floods, nine are steady",
        machines=tuple(Machine(number, Resources(cpu_milli=_CORES * 1000)) for number in range(1, _MACHINES + 1)),
        shapes=(Resources(cpu_milli=1000),),
        jobs=tuple(
            Job(number, tenant, 0, submit_us, run_us, perfect_cap_ms(run_us))
            for number, (submit_us, tenant, run_us) in enumerate(sorted(flooding + steady, key=lambda job: job[0]), 1)
        ),
    )


def steady_wait_seconds(run: Run, until_us: int) -> float:
    """A task that has not started by the end has waited until then."""
    return statistics.fmean(
        (run.first_start_us.get(job.id, until_us) - job.submit_us) / 1e6
        for job in run.workload.jobs
        if job.tenant != FLOODER
    )


def _run_us(chance: random.Random) -> int:
    return int(chance.uniform(0.5, 1.5) * _MEAN_RUN_US)
