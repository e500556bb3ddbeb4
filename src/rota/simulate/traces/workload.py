"""The input of a simulation: machines, demands and jobs.

Everything here is a plain value. A job knows its real run time, which no policy may read: policies see the cap.
`swf.py` and `openb.py` read trace files; `drive.py` runs a workload through a policy.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from rota.model.resources import Resources

Progress = Callable[[int, int], None] | None  # called with the work done and all the work
TOLERANCE_CAPS = 30  # a job should start within this many times its cap
LEAST_FACTOR, MOST_FACTOR = 2.0, 10.0  # range of the overestimates


class BadTrace(ValueError):
    """The input cannot be used; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a run."""

    def as_dict(self) -> dict[str, object]:
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Machine:
    id: int
    capacity: Resources


@dataclass(frozen=True, slots=True)
class Job:
    id: int  # 1, 2, … in order of submission
    tenant: int
    shape: int  # index in the workload's shapes
    submit_us: int
    run_us: int
    cap_ms: int

    @property
    def start_by_us(self) -> int:
        return self.submit_us + TOLERANCE_CAPS * self.cap_ms * 1000


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    machines: tuple[Machine, ...]
    shapes: tuple[Resources, ...]
    jobs: tuple[Job, ...]  # by time of submission
    left_out: int = 0  # unusable records, and jobs larger than any machine


def perfect_cap_ms(run_us: int) -> int:
    """The run time, rounded up to at least 1 ms."""
    return max(1, -(-run_us // 1000))


def overestimated(workload: Workload, seed: int) -> Workload:
    """Caps of 2 to 10 times the run time. Each job has its own random stream, so sampling does not change its cap."""

    def overestimate(job: Job) -> Job:
        factor = random.Random(f"{seed}:{job.id}").uniform(LEAST_FACTOR, MOST_FACTOR)
        return replace(job, cap_ms=perfect_cap_ms(int(job.run_us * factor)))

    return replace(workload, jobs=tuple(map(overestimate, workload.jobs)))


def compressed(workload: Workload, scale: float) -> Workload:
    """The same jobs, arriving `scale` times as fast."""
    jobs = tuple(replace(job, submit_us=int(job.submit_us / scale)) for job in workload.jobs)
    return replace(workload, jobs=jobs)


def samples(workload: Workload, *, length: int, count: int, seed: int) -> list[Workload]:
    """`count` random sequences of `length` consecutive jobs; each begins at time 0 on an empty pool."""
    total = len(workload.jobs)
    if total <= length:
        raise BadTrace(f"{workload.name} has {total:,} usable jobs, too few for sequences of {length:,}")
    chance = random.Random(seed)
    starts = [chance.randint(0, total - length - 1) for _ in range(count)]
    return [replace(workload, jobs=_from_zero(workload.jobs[start : start + length])) for start in starts]


def whole(workload: Workload) -> list[Workload]:
    """All jobs as one sequence."""
    if not workload.jobs:
        raise BadTrace(f"{workload.name} has no usable jobs")
    return [replace(workload, jobs=_from_zero(workload.jobs))]


def _from_zero(jobs: Sequence[Job]) -> tuple[Job, ...]:
    zero = jobs[0].submit_us
    return tuple(replace(job, id=number, submit_us=job.submit_us - zero) for number, job in enumerate(jobs, 1))
