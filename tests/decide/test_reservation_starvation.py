"""Reservation and backfill: a big task gets its turn, and small ones go first only where that costs it nothing."""

from __future__ import annotations

import heapq
import random

import pytest

from rota.decide.messages import AttemptEnded, Start, TenantKnown
from rota.decide.policy import Policy
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


# ---- run times that nobody gave -------------------------------------------------------------------------------------

DEFAULT_CAP = 6 * 86_400


def _starts_after(
    scene: Scene,
    big_start_by: int,
    seconds: tuple[float, float],
    *,
    seed: int = 0,
    cap: int = DEFAULT_CAP,
    one_name: bool = True,
    horizon: float = 40,
) -> float | None:
    """When a task that needs 4 CPUs, ready from second 10 on, starts beside an endless supply of half-CPU tasks."""
    chance = random.Random(seed)
    ends: list[tuple[int, int, int]] = []
    big = None
    while scene.now_us < horizon * SECOND_US:
        while len(scene.core.state.ready) < 40:
            name = "flood" if one_name else f"flood {scene.now_us} {len(scene.core.state.ready)}"
            scene.task(cpus=0.5, cap=cap, name=name, tenant=1, start_by=10**7)
        if big is None and scene.now_us >= 10 * SECOND_US:
            big = scene.task(cpus=4, cap=cap, name="big", tenant=2, start_by=big_start_by)
        for decision in scene.core.plan(scene.now_us, 1000):
            assert isinstance(decision, Start)
            if big is not None and decision.task.id == big.id:
                return scene.now_us / SECOND_US - 10
            run_us = int(chance.uniform(*seconds) * SECOND_US)
            heapq.heappush(ends, (scene.now_us + run_us, decision.task.id, run_us))
        if not ends:
            scene.later(seconds=0.1)
            continue
        scene.now_us, task, run_us = heapq.heappop(ends)
        scene.core.apply(AttemptEnded(task, run_us, 1), scene.now_us)
    return None


@pytest.mark.parametrize("seconds", [(0.3, 0.3), (0.2, 0.5), (0.05, 1.5), (0.02, 0.04)], ids=str)
@pytest.mark.parametrize("start_by", [LATE, 10**6], ids=["late", "in time"])
@pytest.mark.parametrize("one_name", [True, False], ids=["one name", "many names"])
def test_small_tasks_without_a_cap_of_their_own_starve_no_big_one(
    seconds: tuple[float, float], start_by: int, one_name: bool
) -> None:
    for seed in range(3):
        scene = Scene()
        scene.worker(cpus=4)
        for tenant in (1, 2):
            scene.apply(TenantKnown(tenant, 1, None, None, longest_cap_us=DEFAULT_CAP * SECOND_US))
        waited = _starts_after(scene, start_by, seconds, seed=seed, one_name=one_name)
        assert waited is not None, "it was starved"
        assert waited <= 1 + 3 * seconds[1], "the small ones that ran when it came, and a bounded number after them"


def test_an_attempt_that_outlasts_its_estimate_lets_nobody_start_who_may_take_longer() -> None:
    scene = Scene()
    worker = scene.worker(cpus=4)
    short = scene.task(name="short", cap=DEFAULT_CAP)
    worker.expects(short)
    scene.decide()
    scene.later(seconds=60)
    scene.ends(short, milliseconds=60_000)
    running = scene.task(cpus=3, cap=DEFAULT_CAP, name="long")
    scene.knows("long", milliseconds=100_000)
    scene.core.state.p90_us[1, running.work] = 100 * SECOND_US
    worker.expects(running)
    scene.decide()
    big = scene.task(cpus=4, cap=DEFAULT_CAP, name="big", start_by=10**6, priority=1)
    in_time = scene.task(name="short", cap=DEFAULT_CAP)
    worker.expects(in_time)
    scene.decide()
    scene.later(seconds=60)
    scene.ends(in_time, milliseconds=60_000)
    scene.later(seconds=41)  # the time of the reservation has passed
    scene.task(name="short", cap=DEFAULT_CAP)
    scene.decide()
    surely = scene.task(cpus=0.5, name="bounded", cap=50)
    worker.expects(surely)
    scene.decide()
    scene.later(seconds=50)
    scene.ends(surely, running)
    worker.expects(big)
    scene.decide()


def test_small_tasks_on_other_nodes_do_not_use_up_what_the_marks_leave_to_a_big_one() -> None:
    """A tenth is kept for urgent work: a big task needs what small ones would take on any node of the pool."""
    works = Clockwork([10, 10, 10], policy=Policy(urgent_memory_us=10**15))
    works.task(runs=1, lane=Lane.URGENT, tenant=3)

    def go_on(ended: int) -> None:
        if works.now_us < 500 * SECOND_US and works.owner(ended) == 1:
            works.task(runs=10 + ended % 7 * 0.3)

    works.on_end = go_on
    for number in range(40):
        works.task(runs=3 + number % 11)
    big = works.task(cpus=3, runs=10, at=20, tenant=2)
    works.run(until=600)
    assert works.started[big] <= 60


def test_a_reservation_of_a_later_rank_gives_way_to_one_of_an_earlier_rank() -> None:
    scene = Scene()
    scene.lane(10, level=5)
    ssd, tape = (scene.worker(cpus=4, labels={"disk": disk}) for disk in ("ssd", "tape"))
    ssd.expects(scene.task(cpus=3, cap=1000, require={"disk": "ssd"}))
    tape.expects(scene.task(cpus=3, cap=1000, require={"disk": "tape"}))
    scene.decide()
    low = scene.task(cpus=4, lane=10, require={"disk": "ssd"}, start_by=LATE)
    scene.task(cpus=1, lane=10, cap=5000)
    scene.order()
    assert [kept.task for kept in scene.core.state.reservations.values()] == [low.id]
    high = scene.task(cpus=4, require={"disk": "tape"}, start_by=LATE)
    scene.task(cpus=1, cap=9000)
    scene.order()
    assert [kept.task for kept in scene.core.state.reservations.values()] == [high.id]
