"""Policies on small workloads whose right answer can be worked out by hand, and on the recorded ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.model.resources import Resources
from rota.simulate.traces.drive import Begin, Run, Stop, drive
from rota.simulate.traces.figures import figures, jain, jain_among_busy
from rota.simulate.traces.fill import fill
from rota.simulate.traces.late_starts import unavoidable
from rota.simulate.traces.policies import IN_TIME, policy
from rota.simulate.traces.replay import ReplayOptions, read, replay
from rota.simulate.traces.workload import Job, Machine, Workload, overestimated, samples

DATA = Path(__file__).parents[3] / "shared" / "data"
LUBLIN, PODS, NODES = DATA / "lublin_256.swf", DATA / "openb_pods.csv", DATA / "openb_nodes.csv"
recorded = pytest.mark.skipif(not LUBLIN.exists(), reason="the recorded workloads are not on this machine")


def pool(*jobs: tuple[int, int, int], cores: int = 4, tenants: tuple[int, ...] = ()) -> Workload:
    """One machine; a job is (submit second, run seconds, cores)."""
    return Workload(
        name="by hand",
        machines=(Machine(1, Resources(cpu_milli=cores * 1000)),),
        shapes=tuple(Resources(cpu_milli=width * 1000) for width in range(cores + 1)),
        jobs=tuple(
            Job(number, tenants[number - 1] if tenants else 1, width, at * 1_000_000, run * 1_000_000, run * 1000)
            for number, (at, run, width) in enumerate(jobs, 1)
        ),
    )


def starts(name: str, workload: Workload) -> list[int]:
    run = drive(workload, policy(name, workload))
    return [run.first_start_us[job.id] // 1_000_000 for job in workload.jobs]


def test_first_come_first_served_waits_behind_the_first() -> None:
    assert starts("fcfs", pool((0, 10, 3), (1, 10, 4), (2, 5, 1))) == [0, 10, 20]


def test_easy_lets_a_job_pass_that_ends_in_time_and_none_that_would_delay_the_first() -> None:
    assert starts("fcfs-easy", pool((0, 10, 3), (1, 10, 4), (2, 5, 1))) == [0, 10, 2]
    assert starts("fcfs-easy", pool((0, 10, 3), (1, 10, 4), (2, 9, 1))) == [0, 10, 20]


def test_easy_lets_a_long_job_pass_that_leaves_enough_beside_the_first() -> None:
    assert starts("fcfs-easy", pool((0, 10, 2), (1, 10, 3), (2, 100, 1))) == [0, 10, 2]


def test_shortest_first_takes_the_shortest() -> None:
    assert starts("sjf-easy", pool((0, 10, 4), (1, 10, 4), (2, 5, 4))) == [0, 15, 10]


@pytest.mark.parametrize("name", IN_TIME)
def test_every_job_runs_once_and_the_same_twice(name: str) -> None:
    workload = pool(
        *((n % 7, 1 + n % 5, 1 + n % 4) for n in range(1)), *((n // 3, 1 + n % 5, 1 + n % 4) for n in range(1, 60))
    )
    first, second = (drive(workload, policy(name, workload)) for _ in range(2))
    assert len(first.end_us) == 60
    assert first.spans == second.spans


def test_figures_of_a_run_worked_out_by_hand() -> None:
    workload = pool((0, 20, 4), (0, 5, 4))
    found = figures([drive(workload, policy("fcfs", workload))])
    assert found.mean_wait_seconds == 10
    assert found.longest_wait_seconds == 20
    assert found.average_bounded_slowdown == (1 + 25 / 10) / 2
    assert found.utilisation == 1
    assert (found.late_starts, found.preemptions, found.never_started) == (0, 0, 0)
    assert found.gpu_allocated_share is None


def test_a_late_start_is_unavoidable_only_if_no_less_urgent_job_started_before_it() -> None:
    full = pool((0, 1000, 4), (1, 1, 4))  # nothing could be done for the second
    run = drive(full, policy("fcfs", full))
    assert (figures([run]).late_starts, unavoidable(run)) == (1, 1)
    passed = pool((0, 10, 4), (1, 1000, 4), (2, 1, 4))  # the second could have waited for the third
    run = drive(passed, policy("fcfs", passed))
    assert (figures([run]).late_starts, unavoidable(run)) == (1, 0)


def test_fairness_counts_only_tenants_who_had_to_wait() -> None:
    assert jain([1, 1]) == 1
    assert jain([1, 0]) == 0.5
    alone = pool((0, 10, 4), (1, 10, 4), tenants=(1, 2))
    assert jain_among_busy(drive(alone, policy("fcfs", alone))) == 1
    starved = pool(*[(0, 10, 4)] * 6, tenants=(1, 1, 1, 2, 2, 2))
    assert jain_among_busy(drive(starved, policy("fcfs", starved))) == 0.5


class Careless:
    """Begins everything at once, wherever."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def ready(self, jobs: tuple[Job, ...], now_us: int) -> None:
        self._jobs += jobs

    def ended(self, job: Job, now_us: int) -> None: ...

    def plan(self, now_us: int) -> list[Begin | Stop]:
        begun, self._jobs = self._jobs, []
        return [Begin(job.id, 1) for job in begun]


def test_a_policy_that_overcommits_a_machine_is_noticed() -> None:
    with pytest.raises(AssertionError, match="cannot hold"):
        drive(pool((0, 10, 3), (1, 10, 3)), Careless())


class Impatient(Careless):
    """Stops the first job when the second comes, and begins it again after."""

    def ended(self, job: Job, now_us: int) -> None:
        if job.id == 2:
            self._jobs = [Job(1, 1, 4, 0, 0, 0)]

    def plan(self, now_us: int) -> list[Begin | Stop]:
        return [*([Stop(1)] if any(job.id == 2 for job in self._jobs) else []), *super().plan(now_us)]


def test_a_stopped_job_starts_over_and_its_lost_time_counts_as_waiting() -> None:
    workload = pool((0, 10, 4), (6, 4, 4))
    run: Run = drive(workload, Impatient())
    assert run.end_us == {1: 20_000_000, 2: 10_000_000}
    found = figures([run])
    assert (found.preemptions, found.longest_wait_seconds) == (1, 10)


@recorded
def test_baselines_give_the_published_slowdown_on_the_lublin_trace() -> None:
    report = replay(
        ReplayOptions(file=LUBLIN, nodes=None, policies=("fcfs-easy", "sjf-easy"), length=1024, count=10, seed=1)
    )
    found = report["policies"]
    assert isinstance(found, dict)
    assert found["fcfs-easy"]["average_bounded_slowdown"] == pytest.approx(264, rel=0.01)
    assert found["sjf-easy"]["average_bounded_slowdown"] == pytest.approx(40, rel=0.02)


@recorded
def test_the_core_keeps_slowdown_at_a_fifth_of_first_come_first_served() -> None:
    report = replay(
        ReplayOptions(file=LUBLIN, nodes=None, policies=("rota", "fcfs-easy"), length=1024, count=10, seed=1)
    )
    assert report["never_started"] == 0
    assert report["average_bounded_slowdown"] <= 50  # type: ignore[operator]
    assert report["ratios"]["rota/fcfs-easy"]["average_bounded_slowdown"] <= 0.20  # type: ignore[index]


@recorded
def test_the_core_copes_with_overestimated_caps() -> None:
    sequence = samples(overestimated(read(LUBLIN, None), 1), length=512, count=1, seed=1)[0]
    found = figures([drive(sequence, policy("rota", sequence))])
    assert found.finished == 512


@recorded
def test_first_fit_fills_the_openb_pool_as_published() -> None:
    filled = fill(read(PODS, NODES), "first-fit", times=1.3, seed=1)
    assert filled.gpu_allocated_share == pytest.approx(0.931, abs=0.001)
    assert (filled.tasks, filled.refused) == (10_892, 2_601)
