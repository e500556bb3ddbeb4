"""Counts late starts that no order of starts could have prevented without delaying a more urgent job.

A late start was avoidable if the job would have fitted on one machine at some moment before its start-by, using free
resources and those of jobs that began after its arrival and had a later start-by. The check looks back with full
knowledge, which no policy has.
"""

from __future__ import annotations

from bisect import bisect_left

from rota.simulate.traces.drive import Run, Span
from rota.simulate.traces.free_resources import amounts_of
from rota.simulate.traces.workload import Job

_MOST_SPANS = 30_000  # with more, the check would take longer than the run


def unavoidable(run: Run) -> int | None:
    """The number of unavoidable late starts; None if the run is too large to check."""
    late = [job for job in run.workload.jobs if run.first_start_us.get(job.id, job.submit_us) > job.start_by_us]
    if not late:
        return 0
    if len(run.spans) > _MOST_SPANS:
        return None
    jobs = {job.id: job for job in run.workload.jobs}
    by_machine: dict[int, list[Span]] = {machine.id: [] for machine in run.workload.machines}
    for span in run.spans:
        by_machine[span.machine].append(span)
    return sum(not any(_could_hold(run, jobs, job, by_machine[number]) for number in by_machine) for job in late)


def _could_hold(run: Run, jobs: dict[int, Job], job: Job, spans: list[Span]) -> bool:
    """Whether the machine of these spans could have begun the job between its arrival and its start-by."""
    if not spans:
        return False
    machine = next(machine for machine in run.workload.machines if machine.id == spans[0].machine)
    capacity, shapes = amounts_of(machine.capacity), run.workload.shapes
    demand = amounts_of(shapes[job.shape])
    first = bisect_left(spans, job.submit_us, key=lambda span: span.end_us)  # earlier spans have ended
    changes: list[tuple[int, int, tuple[int, int, int]]] = []
    for span in spans[first:]:
        other = jobs[span.job]
        if span.start_us > job.start_by_us or span.job == job.id:
            continue
        if span.start_us >= job.submit_us and other.start_by_us > job.start_by_us:
            continue  # this job could have had its resources
        held = amounts_of(shapes[other.shape])
        changes.append((max(span.start_us, job.submit_us), 1, held))
        changes.append((span.end_us, -1, held))
    used = [0, 0, 0]
    moment = job.submit_us
    for at, sign, held in sorted(changes, key=lambda change: (change[0], change[1])):
        if at > moment and _fits(demand, used, capacity):
            return True
        if at > job.start_by_us:
            return False
        moment = at
        for index in range(3):
            used[index] += sign * held[index]
    return _fits(demand, used, capacity)


def _fits(demand: tuple[int, ...], used: list[int], capacity: tuple[int, ...]) -> bool:
    return all(used[index] + demand[index] <= capacity[index] for index in range(3))
