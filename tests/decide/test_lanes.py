"""Lanes: in which order they are served, which of them wait for quieter times, and what is kept for urgent work."""

from __future__ import annotations

import pytest

from rota.decide.messages import AttemptAdopted
from rota.decide.policy import Policy
from rota.model.queue import AuthorisedAttempt
from rota.model.task import Lane
from tests.decide.scene import Scene

OVERNIGHT, EXPRESS = 7, 8  # lanes an operator made


# ---- ranks ----------------------------------------------------------------------------------------------------------


def test_normal_and_periodic_tasks_share_one_queue() -> None:
    scene = Scene()
    periodic = scene.tasks(2, lane=Lane.PERIODIC, tenant=1)
    normal = scene.tasks(2, lane=Lane.NORMAL, tenant=2)
    scene.worker(cpus=3).expects(periodic[0], normal[0], periodic[1])
    scene.decide()


def test_an_unknown_lane_counts_as_normal() -> None:
    scene = Scene()
    unknown = scene.task(lane=OVERNIGHT, tenant=1)
    normal = scene.task(tenant=2)
    off_peak = scene.task(lane=Lane.OFF_PEAK, tenant=3)
    scene.worker(cpus=8).expects(unknown, normal, off_peak)
    scene.decide()


def test_a_rank_goes_before_a_tenants_share() -> None:
    scene = Scene()
    worker = scene.worker(cpus=4)
    heavy = scene.tasks(4, tenant=1)
    worker.expects(*heavy)
    scene.decide()
    scene.later(seconds=1000)
    scene.ends(*heavy)
    urgent = scene.tasks(2, lane=Lane.URGENT, tenant=1)
    others = scene.tasks(2, tenant=2)
    worker.expects(*urgent, *others)
    scene.decide()


# ---- lanes are data -------------------------------------------------------------------------------------------------


def test_an_operators_lane_is_served_at_its_level() -> None:
    scene = Scene()
    scene.lane(EXPRESS, level=1)
    scene.lane(OVERNIGHT, level=3)
    off_peak = scene.task(lane=Lane.OFF_PEAK)
    overnight = scene.task(lane=OVERNIGHT)
    express = scene.task(lane=EXPRESS)
    scene.worker(cpus=8).expects(express, off_peak, overnight)
    scene.decide()


def test_a_gated_lane_comes_after_the_others_of_its_level() -> None:
    scene = Scene()
    scene.lane(OVERNIGHT, level=1, gated=True)
    gated = scene.task(lane=OVERNIGHT)
    normal = scene.task()
    scene.worker(cpus=8).expects(normal, gated)
    scene.decide()


def test_a_lane_that_is_moved_takes_its_waiting_tasks_along() -> None:
    scene = Scene()
    scene.lane(OVERNIGHT, level=3)
    first, second = scene.tasks(2, lane=OVERNIGHT)
    normal = scene.tasks(2)
    worker = scene.worker(cpus=1).expects(normal[0])
    scene.decide()
    scene.lane(OVERNIGHT, level=0)
    scene.ends(normal[0])
    worker.expects(first)
    scene.decide()
    scene.lane(OVERNIGHT, level=3)
    scene.ends(first)
    worker.expects(normal[1])
    scene.decide()
    scene.ends(normal[1])
    worker.expects(second)
    scene.decide()


def test_a_gate_is_put_up_and_taken_down_while_tasks_wait() -> None:
    scene = Scene()
    busy = scene.tasks(9)
    worker = scene.worker(cpus=10).expects(*busy)
    scene.decide()
    scene.lane(Lane.PERIODIC, level=1, gated=True)
    held_back = scene.task(lane=Lane.PERIODIC)
    scene.decide()
    scene.lane(Lane.PERIODIC, level=1)
    worker.expects(held_back)
    scene.decide()


def test_a_lane_that_is_moved_leaves_keys_and_caps_as_they_are() -> None:
    scene = Scene()
    scene.tenant(2, running=1)
    keyed = scene.tasks(2, key="one")
    capped = scene.tasks(2, tenant=2)
    worker = scene.worker(cpus=8).expects(keyed[0], capped[0])
    scene.decide()
    scene.lane(Lane.NORMAL, level=2)
    scene.decide()
    scene.ends(keyed[0], capped[0])
    worker.expects(keyed[1], capped[1])
    scene.decide()


# ---- the peak -------------------------------------------------------------------------------------------------------


def test_off_peak_work_fills_the_pool_up_to_the_peak_mark_and_no_further() -> None:
    scene = Scene()
    tasks = scene.tasks(12, lane=Lane.OFF_PEAK)
    scene.worker(cpus=10).expects(*tasks[:8])
    scene.decide()
    scene.decide()


def test_off_peak_work_waits_at_the_mark_and_runs_once_the_peak_is_well_over() -> None:
    scene = Scene()
    busy = scene.tasks(80)
    worker = scene.worker(cpus=100).expects(*busy)
    scene.decide()
    off_peak = scene.task(lane=Lane.OFF_PEAK)
    scene.decide()  # 80 %: a peak
    scene.ends(*busy[:4])
    scene.decide()  # 76 %: still one
    scene.ends(busy[4])
    scene.decide()  # 75 %: its last moment
    scene.ends(busy[5])
    worker.expects(off_peak)
    scene.decide()  # 74 %: over


def test_below_the_mark_but_never_above_it_is_no_peak() -> None:
    scene = Scene()
    busy = scene.tasks(78)
    worker = scene.worker(cpus=100).expects(*busy)
    scene.decide()
    off_peak = scene.tasks(5, lane=Lane.OFF_PEAK)
    worker.expects(*off_peak[:2])
    scene.decide()


def test_the_busiest_resource_makes_the_peak() -> None:
    scene = Scene()
    full = scene.task(memory=8, cpus=1)
    worker = scene.worker(cpus=100, memory=10).expects(full)
    scene.decide()
    off_peak = scene.task(lane=Lane.OFF_PEAK)
    scene.decide()
    scene.ends(full)
    worker.expects(off_peak)
    scene.decide()


def test_a_drained_worker_counts_neither_as_capacity_nor_as_load() -> None:
    scene = Scene()
    busy = scene.tasks(8)
    worker = scene.worker(cpus=10).expects(*busy)
    scene.decide()
    other = scene.worker(cpus=10)
    off_peak = scene.task(lane=Lane.OFF_PEAK)
    worker.drains()
    other.expects(off_peak)
    scene.decide()


def test_off_peak_work_once_promoted_does_not_wait_for_quieter_times() -> None:
    scene = Scene()
    busy = scene.tasks(9)
    worker = scene.worker(cpus=10).expects(*busy)
    scene.decide()
    late = scene.task(lane=Lane.OFF_PEAK)
    scene.decide()
    worker.expects(scene.promotes(late))
    scene.decide()


def test_a_promoted_task_jumps_over_other_tenants_and_is_not_put_back() -> None:
    scene = Scene()
    others = scene.tasks(3, tenant=1, start_by=1)
    late = scene.task(tenant=2, start_by=900)
    promoted = scene.promotes(late)
    scene.promotes(promoted, Lane.NORMAL)  # an older copy of the row, loaded again
    scene.worker(cpus=2).expects(promoted, others[0])
    scene.decide()


def test_an_operator_moves_the_mark() -> None:
    scene = Scene()
    tasks = scene.tasks(6, lane=Lane.OFF_PEAK)
    worker = scene.worker(cpus=10)
    scene.policy(Policy(peak_ppm=300_000))
    worker.expects(*tasks[:3])
    scene.decide()
    scene.policy(Policy(peak_ppm=500_000))
    worker.expects(*tasks[3:5])
    scene.decide()


# ---- kept for urgent work -------------------------------------------------------------------------------------------


def _scene_with_urgent_work_seen() -> Scene:
    scene = Scene()
    seen = scene.task(lane=Lane.URGENT, tenant=9)
    scene.worker(cpus=20).expects(seen)
    scene.decide()
    scene.ends(seen)
    return scene


def test_a_tenth_is_kept_while_urgent_work_was_seen_within_the_hour() -> None:
    scene = _scene_with_urgent_work_seen()
    tasks = scene.tasks(20)
    assert scene.order() == [task.id for task in tasks[:18]]
    urgent = scene.tasks(3, lane=Lane.URGENT, tenant=2)
    assert scene.order() == [task.id for task in urgent[:2]]


def test_nothing_is_kept_before_any_urgent_work_was_seen() -> None:
    scene = Scene()
    tasks = scene.tasks(20)
    scene.worker(cpus=20).expects(*tasks)
    scene.decide()


def test_nothing_is_kept_once_the_hour_is_over() -> None:
    scene = _scene_with_urgent_work_seen()
    scene.later(seconds=3601)
    tasks = scene.tasks(20)
    assert scene.order() == [task.id for task in tasks]


def test_a_tenth_too_small_for_the_task_is_of_no_use_and_not_kept() -> None:
    scene = _scene_with_urgent_work_seen()
    tasks = scene.tasks(5, cpus=4)
    assert scene.order() == [task.id for task in tasks]


def test_what_is_kept_is_the_operators_choice() -> None:
    scene = _scene_with_urgent_work_seen()
    scene.policy(Policy(urgent_kept_ppm=500_000))
    tasks = scene.tasks(20)
    assert scene.order() == [task.id for task in tasks[:10]]
    scene.policy(Policy(urgent_kept_ppm=0))
    assert scene.order() == [task.id for task in tasks[10:]]


def test_off_peak_work_leaves_what_is_kept_alone_even_below_the_mark() -> None:
    scene = _scene_with_urgent_work_seen()
    scene.policy(Policy(peak_ppm=1_000_000))
    tasks = scene.tasks(20, lane=Lane.OFF_PEAK)
    assert scene.order() == [task.id for task in tasks[:18]]


def test_urgent_attempts_of_an_earlier_leader_count_as_seen() -> None:
    scene = Scene()
    scene.worker(cpus=20)
    tasks = scene.tasks(20)
    held = AuthorisedAttempt(1000, 1, 9, tasks[0].shape, 1, 1, 30_000, 0, None, 1, False, lane=Lane.URGENT)
    scene.apply(AttemptAdopted(held))
    assert scene.order() == [task.id for task in tasks[:17]]


# ---- the share of urgency -------------------------------------------------------------------------------------------


def test_while_others_wait_a_tenant_holds_no_more_through_urgency_than_its_plan_says() -> None:
    scene = Scene()
    scene.tenant(1, urgent_percent=30)
    urgent = scene.tasks(10, tenant=1, lane=Lane.URGENT)
    others = scene.tasks(10, tenant=2)
    # Three through the urgent lane; the rest of its urgent tasks take turns with the others' normal ones.
    scene.worker(cpus=10).expects(*urgent[:3], *others[:3], urgent[3], others[3], urgent[4], others[4])
    scene.decide()


def test_a_tenant_alone_may_be_as_urgent_as_it_likes() -> None:
    scene = Scene()
    scene.tenant(1, urgent_percent=10)
    urgent = scene.tasks(10, tenant=1, lane=Lane.URGENT)
    scene.worker(cpus=10).expects(*urgent)
    scene.decide()


def test_a_plan_without_urgency_makes_urgent_tasks_normal_ones_while_others_wait() -> None:
    scene = Scene()
    scene.tenant(1, urgent_percent=0)
    urgent = scene.tasks(4, tenant=1, lane=Lane.URGENT)
    others = scene.tasks(4, tenant=2)
    scene.worker(cpus=4).expects(urgent[0], others[0], urgent[1], others[1])
    scene.decide()


def test_the_share_of_urgency_counts_what_still_runs() -> None:
    scene = Scene()
    scene.tenant(2, urgent_percent=50)
    worker = scene.worker(cpus=4)
    held = scene.tasks(2, tenant=2, lane=Lane.URGENT)
    worker.expects(*held)
    scene.decide()
    others = scene.tasks(4, tenant=1)
    more = scene.task(tenant=2, lane=Lane.URGENT)
    worker.expects(*others[:2])
    scene.decide()  # the others hold less; the demoted one stands behind them
    scene.ends(held[0])
    worker.expects(more)
    scene.decide()  # now it may be urgent again


@pytest.mark.parametrize("tenants", [2, 5])
def test_tenants_with_urgent_work_share_the_urgent_lane_evenly(tenants: int) -> None:
    scene = Scene()
    for tenant in range(1, tenants + 1):
        scene.tasks(30, tenant=tenant, lane=Lane.URGENT)
    scene.worker(cpus=10 * tenants)
    scene.order()
    assert [tenant.running for tenant in scene.core.state.tenants.values()] == [10] * tenants


def test_what_was_kept_is_given_away_when_the_hour_is_over_though_nothing_ended() -> None:
    scene = Scene()
    seen = scene.task(lane=Lane.URGENT, tenant=9)
    worker = scene.worker(cpus=20).expects(seen)
    scene.decide()
    scene.ends(seen)
    tasks = scene.tasks(20)
    worker.expects(*tasks[:18])
    scene.decide()
    scene.later(seconds=3601)
    worker.expects(*tasks[18:])
    scene.decide()


def test_above_the_peak_mark_tasks_with_a_tolerance_go_before_tasks_without_one() -> None:
    scene = Scene()
    scene.worker(cpus=10)
    scene.tasks(8, tenant=3)
    scene.order()
    scene.tasks(2, tenant=1, start_by=1, tolerated=False)
    first = scene.tasks(2, tenant=2, start_by=600)
    assert scene.order() == [task.id for task in first]


def test_a_tenants_priority_orders_its_tasks_across_lanes_of_one_level() -> None:
    scene = Scene()
    low = scene.task(lane=Lane.NORMAL, priority=-5)
    periodic = scene.task(lane=Lane.PERIODIC)
    high = scene.task(lane=Lane.NORMAL, priority=5)
    off_peak = scene.task(lane=Lane.OFF_PEAK, priority=100)
    scene.worker(cpus=10)
    assert scene.order() == [high.id, periodic.id, low.id, off_peak.id]


def test_an_operators_lane_of_the_same_level_is_served_with_the_others() -> None:
    scene = Scene()
    scene.lane(4, level=1)
    normal = scene.task(lane=Lane.NORMAL, priority=-1)
    batch = scene.task(lane=4)
    scene.worker()
    assert scene.order() == [batch.id, normal.id]
