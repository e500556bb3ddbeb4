"""Preemption: who gives way to a task that can't wait, who never does, and how often anybody is asked."""

from __future__ import annotations

from rota.decide.policy import Policy
from rota.model.queue import ReadyTask
from rota.model.task import Lane
from tests.decide.scene import Scene, Worker

LONG = 36_000  # seconds


def _busy(cpus: int = 2, *, policy: Policy | None = None, **each: object) -> tuple[Scene, Worker, list[ReadyTask]]:
    """A worker full of preemptible tasks that began a while ago and go on for hours."""
    scene = Scene(policy)
    tasks = scene.tasks(cpus, **{"preemptible": True, "cap": LONG, **each})
    worker = scene.worker(cpus=cpus).expects(*tasks)
    scene.decide()
    scene.later(seconds=20)
    return scene, worker, tasks


# ---- urgent work ----------------------------------------------------------------------------------------------------


def test_an_urgent_task_without_room_takes_the_place_of_a_preemptible_one() -> None:
    scene, worker, tasks = _busy()
    urgent = scene.task(lane=Lane.URGENT, tenant=2)
    worker.asks(tasks[0])
    scene.decide()
    scene.ends(tasks[0])
    worker.expects(urgent)
    scene.decide()


def test_nobody_is_asked_twice_for_the_same_place() -> None:
    scene, worker, tasks = _busy()
    scene.task(lane=Lane.URGENT, tenant=2)
    worker.asks(tasks[0])
    scene.decide()
    scene.decide()
    scene.later(seconds=5)
    scene.decide()


def test_with_room_nobody_is_asked() -> None:
    scene, _, _ = _busy()
    urgent = scene.task(lane=Lane.URGENT, tenant=2)
    scene.worker(cpus=1).expects(urgent)
    scene.decide()


def test_a_task_that_did_not_agree_is_never_asked() -> None:
    scene, _, _ = _busy(preemptible=False)
    scene.task(lane=Lane.URGENT, tenant=2)
    scene.decide()
    scene.later(seconds=1000)
    scene.decide()


def test_urgent_work_is_never_asked() -> None:
    scene, _, _ = _busy(lane=Lane.URGENT)
    scene.task(lane=Lane.URGENT, tenant=2)
    scene.decide()


def test_normal_work_asks_nobody_only_because_it_has_no_room() -> None:
    scene = Scene()
    off_peak = scene.tasks(8, lane=Lane.OFF_PEAK, preemptible=True, cap=LONG)
    scene.worker(cpus=10).expects(*off_peak)
    scene.decide()
    scene.later(seconds=20)
    scene.tasks(4, cpus=3, tenant=2, cap=LONG, start_by=0)
    scene.decide()


def test_as_many_are_asked_as_make_room_and_no_more() -> None:
    scene, worker, tasks = _busy(cpus=4)
    urgent = scene.task(lane=Lane.URGENT, tenant=2, cpus=3)
    worker.asks(*tasks[:3])
    scene.decide()
    scene.ends(tasks[0], tasks[1])
    scene.decide()
    scene.ends(tasks[2])
    worker.expects(urgent)
    scene.decide()


def test_a_small_one_stays_where_a_large_one_must_leave_anyway() -> None:
    scene = Scene()
    small = scene.task(cpus=1, lane=Lane.PERIODIC, preemptible=True, cap=LONG, start_by=1)
    large = scene.task(cpus=3, lane=Lane.PERIODIC, preemptible=True, cap=LONG, start_by=2, tenant=2)
    worker = scene.worker(cpus=4).expects(small, large)
    scene.decide()
    scene.later(seconds=20)
    scene.core.state.tenants[1].key += 10**15  # the small one's tenant is more over its share: it is thought of first
    scene.task(cpus=3, lane=Lane.URGENT, tenant=3)
    worker.asks(large)
    scene.decide()


def test_nobody_is_asked_where_even_all_of_them_would_not_make_room() -> None:
    scene, _, _ = _busy(cpus=2)
    firm = scene.task(cpus=2, cap=LONG)
    other = scene.worker(cpus=3).expects(firm)
    scene.decide()
    other.expects(scene.task(preemptible=True, cap=LONG))
    scene.decide()
    scene.task(lane=Lane.URGENT, tenant=2, cpus=3)
    scene.decide()


# ---- who ------------------------------------------------------------------------------------------------------------


def test_the_least_important_lane_gives_way_first() -> None:
    scene = Scene()
    normal = scene.tasks(2, preemptible=True, cap=LONG)
    off_peak = scene.task(preemptible=True, cap=LONG, lane=Lane.OFF_PEAK, cpus=2)
    worker = scene.worker(cpus=5).expects(*normal, off_peak)
    scene.decide()
    scene.later(seconds=20)
    scene.task(lane=Lane.URGENT, tenant=2, cpus=2)
    worker.asks(off_peak)
    scene.decide()


def test_then_whoever_is_most_over_its_share() -> None:
    scene = Scene()
    light = scene.task(tenant=1, preemptible=True, cap=LONG)
    heavy = scene.tasks(3, tenant=2, preemptible=True, cap=LONG)
    worker = scene.worker(cpus=4).expects(light, *heavy)
    scene.decide()
    scene.later(seconds=20)
    scene.task(lane=Lane.URGENT, tenant=3)
    worker.asks(heavy[0])
    scene.decide()


def test_then_whoever_loses_least() -> None:
    scene = Scene()
    old = scene.task(preemptible=True, cap=LONG)
    worker = scene.worker(cpus=2).expects(old)
    scene.decide()
    scene.later(seconds=60)
    new = scene.task(preemptible=True, cap=LONG)
    worker.expects(new)
    scene.decide()
    scene.later(seconds=10)
    scene.task(lane=Lane.URGENT, tenant=2)
    worker.asks(new)
    scene.decide()


def test_the_worker_where_least_is_lost_is_chosen() -> None:
    scene = Scene()
    old = scene.task(preemptible=True, cap=LONG, cpus=2)
    first = scene.worker(cpus=2).expects(old)
    scene.decide()
    scene.later(seconds=60)
    new = scene.task(preemptible=True, cap=LONG, cpus=2)
    second = scene.worker(cpus=2).expects(new)
    scene.decide()
    scene.later(seconds=10)
    scene.task(lane=Lane.URGENT, tenant=2, cpus=2)
    second.asks(new)
    first.asks()
    scene.decide()


# ---- never for less than is gained -----------------------------------------------------------------------------------


def test_nobody_is_asked_for_a_wait_that_is_over_in_a_moment() -> None:
    scene, worker, tasks = _busy(cap=24)  # four seconds are left
    urgent = scene.task(lane=Lane.URGENT, tenant=2)
    scene.decide()
    scene.later(seconds=4)
    scene.ends(tasks[0])
    worker.expects(urgent)
    scene.decide()


def test_what_is_worth_asking_for_is_the_operators_choice() -> None:
    scene, worker, tasks = _busy(cap=24, policy=Policy(gain_us=1_000_000))
    scene.task(lane=Lane.URGENT, tenant=2)
    worker.asks(tasks[0])
    scene.decide()


def test_nobody_is_asked_for_much_less_than_it_has_done() -> None:
    """A small task that would wait half a minute is not worth ten minutes of a large one's work."""
    scene = Scene()
    large = scene.task(cpus=40, preemptible=True, cap=1230)
    scene.worker(cpus=40).expects(large)
    scene.decide()
    scene.later(seconds=1200)
    scene.task(lane=Lane.URGENT, tenant=2, cpus=1)
    scene.decide()


# ---- the place is kept -----------------------------------------------------------------------------------------------


def test_the_place_is_kept_for_the_claimant_until_it_starts() -> None:
    scene, worker, tasks = _busy()
    urgent = scene.task(lane=Lane.URGENT, tenant=2, cpus=2)
    worker.asks(*tasks)
    scene.decide()
    scene.tasks(3, tenant=3, cap=1)
    scene.task(lane=Lane.URGENT, tenant=4, cap=1)
    scene.ends(tasks[0])
    scene.decide()  # half of it is free, and stays so
    scene.ends(tasks[1])
    worker.expects(urgent)
    scene.decide()


def test_the_place_is_free_for_others_when_the_claimant_is_cancelled() -> None:
    scene, worker, tasks = _busy()
    urgent = scene.task(lane=Lane.URGENT, tenant=2, cpus=2)
    worker.asks(*tasks)
    scene.decide()
    waiting = scene.task(tenant=3)
    scene.ends(tasks[0])
    scene.decide()
    scene.cancels(urgent)
    worker.expects(waiting)
    scene.decide()


def test_a_claimant_that_fits_on_another_node_starts_there() -> None:
    scene, worker, tasks = _busy()
    urgent = scene.task(lane=Lane.URGENT, tenant=2)
    worker.asks(tasks[0])
    scene.decide()
    scene.worker(cpus=1).expects(urgent)
    scene.decide()
    assert not scene.core.state.reservations


# ---- at a bounded rate -----------------------------------------------------------------------------------------------


def test_no_more_are_asked_at_once_than_the_policy_allows() -> None:
    scene, _, _ = _busy(cpus=20, policy=Policy(preempt_burst=3))
    scene.task(lane=Lane.URGENT, tenant=2, cpus=4)
    scene.decide()


def test_the_rate_holds_over_time() -> None:
    scene, _, tasks = _busy(cpus=20, policy=Policy(preempt_burst=2))
    asked = 0
    for _ in range(100):  # ten seconds
        scene.task(lane=Lane.URGENT, tenant=2)
        for decision in scene.core.plan(scene.now_us, 1000):
            if hasattr(decision, "for_task"):
                asked += 1
                scene.ends(next(task for task in tasks if task.id == decision.task))
        scene.later(seconds=0.1)
    assert 2 <= asked <= 2 + 10


# ---- short work ------------------------------------------------------------------------------------------------------


def test_a_short_task_that_would_be_late_takes_the_place_of_a_very_long_one() -> None:
    scene, worker, tasks = _busy(cap=LONG)
    short = scene.task(tenant=2, cap=300, start_by=60)
    worker.asks(tasks[0])
    scene.decide()
    scene.ends(tasks[0])
    worker.expects(short)
    scene.decide()


def test_a_short_task_with_patience_waits() -> None:
    scene, _, _ = _busy(cap=LONG)
    scene.task(tenant=2, cap=300, start_by=2 * LONG)
    scene.decide()


def test_a_short_task_that_nobody_gave_a_tolerance_waits() -> None:
    scene, _, _ = _busy(cap=LONG)
    scene.task(tenant=2, cap=300, start_by=60, tolerated=False)
    scene.decide()


def test_a_task_is_short_only_against_what_the_other_has_left() -> None:
    scene, _, _ = _busy(cap=LONG)
    scene.task(tenant=2, cap=360, start_by=60)  # a hundredth of all it may take, but twenty seconds are over
    scene.decide()


def test_once_the_rate_allows_it_the_next_one_is_asked() -> None:
    scene, worker, tasks = _busy(policy=Policy(preempt_burst=1))
    first = scene.task(lane=Lane.URGENT, tenant=2)
    worker.asks(tasks[0])
    scene.decide()
    scene.ends(tasks[0])
    worker.expects(first)
    scene.decide()
    scene.task(lane=Lane.URGENT, tenant=3)
    scene.decide()
    scene.later(seconds=2)
    worker.asks(tasks[1])
    scene.decide()


def test_an_urgent_task_nobody_can_make_room_for_keeps_no_other_from_asking() -> None:
    scene, worker, tasks = _busy()
    scene.task(lane=Lane.URGENT, tenant=2, gpus=1, start_by=0)
    scene.task(lane=Lane.URGENT, tenant=2, start_by=1)
    worker.asks(tasks[0])
    scene.decide()


def test_a_short_task_asks_nobody_of_a_more_important_lane() -> None:
    scene, _, _ = _busy(cap=LONG, lane=Lane.URGENT)
    scene.task(tenant=2, cap=10, start_by=60)
    scene.decide()


def test_a_victim_that_outlives_what_was_expected_of_it_is_asked_then() -> None:
    """At first the place seems to be free in a moment; later it is plain that it is not."""
    scene = Scene()
    worker = scene.worker(cpus=1)
    usual = scene.task(name="usual", cap=LONG, preemptible=True)
    worker.expects(usual)
    scene.decide()
    scene.later(seconds=2)
    scene.ends(usual, milliseconds=2000)
    endless = scene.task(name="usual", cap=LONG, preemptible=True)
    worker.expects(endless)
    scene.decide()
    scene.later(seconds=1)
    scene.task(lane=Lane.URGENT, tenant=2)
    scene.decide()  # over in a second, it seems
    scene.later(seconds=10)
    worker.asks(endless)
    scene.decide()


def test_no_task_gives_way_to_one_that_the_peak_mark_forbids_all_the_same() -> None:
    scene = Scene(Policy(urgent_kept_ppm=0))
    scene.worker(cpus=5)
    scene.worker(cpus=4)
    urgent = scene.tasks(3, lane=Lane.URGENT, preemptible=True, cap=LONG)
    off_peak = scene.task(cpus=2, lane=Lane.OFF_PEAK, preemptible=True, cap=LONG)
    assert set(scene.order()) == {off_peak.id, *(task.id for task in urgent)}
    scene.later(seconds=20)
    scene.task(tenant=2, cpus=5, lane=Lane.OFF_PEAK, cap=1, start_by=21)  # 3 + 5 of 9 cores are above the mark
    assert scene.core.plan(scene.now_us, 1000) == []
