"""Reservation and backfill: a big task gets its turn, and small ones go first only where that costs it nothing."""

from __future__ import annotations

import pytest

from rota.model.queue import ReadyTask
from rota.model.task import Lane
from tests.decide.clockwork import Clockwork
from tests.decide.scene import SECOND_US, Scene, Worker

LATE = 0  # start-by: its tolerance is used up from the beginning


def _stream(works: Clockwork, *, until: float, cpus: float = 1) -> None:
    """Small tasks without end: whenever one is over the next one is there. They never end at the same moment."""

    def go_on(ended: int) -> None:
        if works.now_us < until * SECOND_US and works.owner(ended) == 1:
            works.task(cpus=cpus, runs=10 + ended % 7 * 0.3)

    works.on_end = go_on
    for number in range(8):
        works.task(cpus=cpus, runs=3 + number)


# ---- nothing starves ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [[4], [4, 4, 2]], ids=["one node", "three nodes"])
def test_a_big_task_that_came_while_all_was_full_is_not_starved_by_small_ones(nodes: list[float]) -> None:
    works = Clockwork(nodes)
    _stream(works, until=2000)
    big = works.task(cpus=4, runs=10, at=2, tenant=2)
    works.run(until=2500)
    assert works.started[big] <= 30


def test_a_big_task_of_the_tenant_with_the_small_ones_is_not_starved_either() -> None:
    works = Clockwork([4])
    _stream(works, until=2000)
    big = works.task(cpus=4, runs=10, at=2)
    works.run(until=2500)
    assert works.started[big] <= 30


def test_a_big_task_with_patience_starts_soon_after_its_tolerance_at_the_latest() -> None:
    works = Clockwork([4])
    _stream(works, until=2000)
    big = works.task(cpus=4, runs=10, at=2, tenant=2, start_by=300)
    works.run(until=2500)
    assert works.started[big] <= 330


def test_a_task_that_fits_nowhere_at_all_gets_no_reservation() -> None:
    works = Clockwork([4])
    works.task(cpus=64, runs=10, start_by=LATE)
    _stream(works, until=2000)
    big = works.task(cpus=4, runs=10, at=2)
    works.run(until=2500)
    assert works.started[big] <= 30


def test_several_big_tasks_get_their_turns_one_after_the_other() -> None:
    works = Clockwork([4])
    _stream(works, until=2000)
    bigs = [works.task(cpus=4, runs=10, at=2, tenant=2) for _ in range(5)]
    works.run(until=2500)
    starts = [works.started[big] for big in bigs]
    assert starts == sorted(starts)
    assert starts[-1] <= 200


def test_a_big_off_peak_task_gets_its_turn_among_small_off_peak_ones() -> None:
    works = Clockwork([10])

    def go_on(ended: int) -> None:
        if works.now_us < 2000 * SECOND_US and works.owner(ended) == 1:
            works.task(runs=10 + ended % 7 * 0.3, lane=Lane.OFF_PEAK)

    works.on_end = go_on
    for number in range(8):
        works.task(runs=3 + number, lane=Lane.OFF_PEAK)
    big = works.task(cpus=7, runs=10, at=2, tenant=2, lane=Lane.OFF_PEAK)
    works.run(until=2500)
    assert works.started[big] <= 60


def _a_place_is_kept(cpus: float = 4, first: float = 3, big: float = 4) -> tuple[Scene, Worker, ReadyTask, ReadyTask]:
    """A worker with a task that ends after 1,000 s at the latest, and a late one that waits for it."""
    scene = Scene()
    running = scene.task(cpus=first, cap=1000)
    worker = scene.worker(cpus=cpus).expects(running)
    scene.decide()
    return scene, worker, running, scene.task(cpus=big, start_by=LATE)


def test_a_reservation_of_a_lane_that_was_moved_does_not_last_for_ever() -> None:
    scene, worker, running, big = _a_place_is_kept()
    long = scene.task(cap=50_000)
    scene.decide()
    scene.lane(Lane.NORMAL, level=3)
    scene.ends(running)
    worker.expects(big)
    scene.decide()
    scene.ends(big)
    worker.expects(long)
    scene.decide()
    assert not scene.core.state.reservations
