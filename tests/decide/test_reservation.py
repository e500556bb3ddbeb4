"""Reservation and backfill: a big task gets its turn, and small ones go first only where that costs it nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.queue import ReadyTask
from rota.model.task import Lane
from tests.decide.clockwork import Clockwork
from tests.decide.scene import Scene, Worker

LATE = 0  # start-by: its tolerance is used up from the beginning


# ---- nothing starves ------------------------------------------------------------------------------------------------


def test_a_big_task_is_not_starved_by_small_ones_that_come_after_it() -> None:
    works = Clockwork([4])
    works.task(cpus=1, runs=5)
    big = works.task(cpus=4, runs=10, at=1, tenant=2)
    for second in range(1, 500):
        works.task(cpus=1, runs=8, at=second)
    works.run(until=2000)
    assert works.started[big] == 5, "when the one before it had ended"


# ---- backfill -------------------------------------------------------------------------------------------------------


def _a_place_is_kept(cpus: float = 4, first: float = 3, big: float = 4) -> tuple[Scene, Worker, ReadyTask, ReadyTask]:
    """A worker with a task that ends after 1,000 s at the latest, and a late one that waits for it."""
    scene = Scene()
    running = scene.task(cpus=first, cap=1000)
    worker = scene.worker(cpus=cpus).expects(running)
    scene.decide()
    return scene, worker, running, scene.task(cpus=big, start_by=LATE)


def test_a_task_that_is_over_in_time_goes_first() -> None:
    scene, worker, _, _ = _a_place_is_kept()
    short = scene.task(cap=1000)
    worker.expects(short)
    scene.decide()


def test_a_task_that_would_delay_it_waits() -> None:
    scene, worker, running, big = _a_place_is_kept()
    scene.task(cap=1001)
    scene.decide()
    scene.later(seconds=1000)
    scene.ends(running)
    worker.expects(big)
    scene.decide()


def test_the_shorter_of_a_tenants_tasks_goes_first_though_its_turn_was_later() -> None:
    scene, worker, _, _ = _a_place_is_kept()
    scene.task(cap=5000, start_by=1)
    short = scene.task(cap=500, start_by=2)
    worker.expects(short)
    scene.decide()


def test_what_was_learned_of_such_work_counts_if_it_is_nearer_than_the_cap() -> None:
    scene = Scene()
    worker = scene.worker(cpus=4)
    usual = scene.task(name="usual", cap=100_000)
    worker.expects(usual)
    scene.decide()
    scene.later(seconds=60)
    scene.ends(usual, milliseconds=60_000)
    running = scene.task(cpus=3, cap=1000)
    worker.expects(running)
    scene.decide()
    scene.task(cpus=4, start_by=LATE)
    another = scene.task(name="usual", cap=100_000)
    worker.expects(another)
    scene.decide()


def test_long_work_may_use_what_is_spare_beside_it_and_no_more() -> None:
    scene, worker, _, _ = _a_place_is_kept(cpus=10, first=6, big=8)
    beside = scene.task(cpus=2, cap=50_000, start_by=1)
    scene.task(cpus=1, cap=50_000, start_by=2)
    in_time = scene.task(cpus=1, cap=500, start_by=3)
    worker.expects(beside, in_time)
    scene.decide()


def test_another_worker_is_not_kept_from_anybody() -> None:
    scene, _, _, _ = _a_place_is_kept()
    other = scene.worker(cpus=1)
    long = scene.task(cap=50_000)
    other.expects(long)
    scene.decide()


def test_a_more_important_lane_does_not_wait_for_a_reservation() -> None:
    scene, worker, _, _ = _a_place_is_kept()
    scene.task(cap=50_000)
    scene.decide()
    urgent = scene.task(lane=Lane.URGENT, tenant=2, cap=50_000)
    worker.expects(urgent)
    scene.decide()


def test_short_work_still_waits_behind_what_runs_there() -> None:
    scene, worker, _, _ = _a_place_is_kept(first=2)
    scene.knows("quick", milliseconds=1)
    quick = scene.tasks(2, name="quick", cap=1, cpus=2)
    worker.expects(quick[0]).expects_behind(quick[1])
    scene.decide()


# ---- how many places ------------------------------------------------------------------------------------------------


def test_there_is_one_reservation_for_each_rank() -> None:
    scene, _, _, big = _a_place_is_kept()
    other = scene.worker(cpus=4).expects(running := scene.task(cpus=3, cap=2000, start_by=0, priority=9))
    scene.task(cpus=4, start_by=1)
    long = scene.tasks(3, cap=50_000)
    other.expects(running, long[0])
    scene.decide()
    assert [place.task for place in scene.core.state.reservations.values()] == [big.id]


@pytest.mark.parametrize(("workers", "most"), [(3, 1), (9, 1), (25, 2)])
def test_no_more_than_a_tenth_of_the_workers_is_kept_but_always_one(workers: int, most: int) -> None:
    scene = Scene()
    for level in range(1, 6):
        scene.lane(10 + level, level=level)
    for _ in range(workers):
        scene.worker(cpus=4)
    scene.tasks(workers, cpus=3, cap=1000)
    scene.order()
    for level in range(1, 6):
        scene.task(cpus=4, lane=10 + level, start_by=LATE)
        scene.tasks(2 * workers, lane=10 + level, cap=50_000)
        scene.order()
    assert 1 <= len({place.node for place in scene.core.state.reservations.values()}) <= most


def test_a_reservation_respects_labels() -> None:
    scene = Scene()
    plain, fast = scene.worker(cpus=4), scene.worker(cpus=4, labels={"disk": "ssd"})
    soon = scene.task(cpus=3, cap=10, require={})
    late = scene.task(cpus=3, cap=1000, require={"disk": "ssd"})
    plain.expects(soon)
    fast.expects(late)
    scene.decide()
    scene.task(cpus=4, require={"disk": "ssd"}, start_by=LATE)
    free = scene.task(cap=50_000)
    plain.expects(free)
    scene.decide()
    assert [place.node for place in scene.core.state.reservations.values()] == [fast.id]


# ---- how a place is given up ----------------------------------------------------------------------------------------


def test_the_reservation_of_a_cancelled_task_ends_at_once() -> None:
    scene, worker, _, big = _a_place_is_kept()
    long = scene.task(cap=50_000)
    scene.decide()
    scene.cancels(big)
    worker.expects(long)
    scene.decide()
    assert not scene.core.state.reservations


def test_a_reserved_node_is_free_for_others_once_its_task_has_run() -> None:
    scene, worker, running, big = _a_place_is_kept()
    long = scene.task(cap=50_000)
    scene.decide()
    scene.ends(running)
    worker.expects(big)
    scene.decide()
    assert not scene.core.state.reservations
    scene.ends(big)
    worker.expects(long)
    scene.decide()


def test_a_task_with_a_reservation_that_fits_on_another_node_starts_there() -> None:
    scene, worker, _, big = _a_place_is_kept()
    long = scene.task(cap=50_000)
    scene.decide()
    new = scene.worker(cpus=4).expects(big)
    worker.expects(long)
    scene.decide()
    assert new.free.cpu_milli == 0


def test_a_reservation_on_a_draining_worker_moves_to_another() -> None:
    scene, worker, _, big = _a_place_is_kept()
    long = scene.task(cap=50_000)
    scene.decide()
    other = scene.worker(cpus=4)
    worker.drains()
    other.expects(big)
    scene.decide()
    scene.ends(big)
    other.expects(long)
    scene.decide()


# ---- the property ---------------------------------------------------------------------------------------------------

loads = st.lists(
    st.tuples(
        st.integers(0, 60),  # at
        st.sampled_from([1, 1, 1, 2, 4]),  # cpus
        st.sampled_from([1, 3, 10, 40]),  # runs
        st.integers(1, 3),  # tenant
        st.sampled_from([0, 5, 30]),  # patience
    ),
    min_size=5,
    max_size=60,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(load=loads, nodes=st.lists(st.sampled_from([4.0, 5.0]), min_size=1, max_size=3))
def test_a_late_task_starts_no_later_than_its_reservation_said(
    load: list[tuple[int, int, int, int, int]], nodes: list[float]
) -> None:
    """Invariant: with exact caps, the time a reservation names when its task is late is kept; and all are served."""
    works = Clockwork(nodes)
    for at, cpus, runs, tenant, patience in load:
        works.task(at=at, cpus=cpus, runs=runs, tenant=tenant, start_by=at + patience)
    works.run(until=100 + 50 * len(load))
    assert len(works.ended) == len(load)
    for task, promised in works.promised.items():
        assert works.started[task] <= promised, f"task {task} was promised {promised}"
