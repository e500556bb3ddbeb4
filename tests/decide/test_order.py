"""Which task comes first: lanes, then tenants in turn, then the tenant's own order."""

from __future__ import annotations

from msgspec.structs import replace

from rota.decide.messages import TasksReady
from rota.model.task import Lane
from tests.decide.scene import Scene


def test_lanes_go_by_rank_whoever_submitted_first() -> None:
    scene = Scene()
    off_peak = scene.task(lane=Lane.OFF_PEAK)
    periodic = scene.task(lane=Lane.PERIODIC)
    normal = scene.task(lane=Lane.NORMAL)
    urgent = scene.task(lane=Lane.URGENT)
    scene.worker(cpus=8).expects(urgent, periodic, normal, off_peak)  # normal and periodic have one rank
    scene.decide()


def test_a_lower_lane_gets_only_what_the_higher_one_leaves() -> None:
    scene = Scene()
    scene.tasks(3, lane=Lane.OFF_PEAK)
    urgent = scene.tasks(2, lane=Lane.URGENT, tenant=2)
    scene.worker(cpus=2).expects(*urgent)
    scene.decide()


def test_a_tenants_tasks_go_by_earliest_start_by() -> None:
    scene = Scene()
    late, early, middle = (scene.task(start_by=seconds) for seconds in (900, 10, 60))
    worker = scene.worker(cpus=2).expects(early, middle)
    scene.decide()
    scene.ends(early)
    worker.expects(late)
    scene.decide()


def test_priority_comes_before_start_by_among_a_tenants_own_tasks() -> None:
    scene = Scene()
    early = scene.task(start_by=10)
    high = scene.task(start_by=900, priority=5)
    low = scene.task(start_by=1, priority=-5)
    scene.worker(cpus=3).expects(high, early, low)
    scene.decide()


def test_priority_means_nothing_to_other_tenants() -> None:
    scene = Scene()
    boasting = scene.tasks(3, tenant=1, priority=1_000_000)
    modest = scene.task(tenant=2, priority=-1_000_000)
    scene.worker(cpus=2).expects(boasting[0], modest)
    scene.decide()


def test_the_shorter_cap_breaks_a_tie_and_then_the_id() -> None:
    scene = Scene()
    long, short, same = scene.task(cap=60), scene.task(cap=5), scene.task(cap=5)
    scene.worker(cpus=3).expects(short, same, long)
    scene.decide()


def test_tenants_take_turns_whatever_their_number_of_tasks() -> None:
    scene = Scene()
    flood = scene.tasks(100, tenant=1)
    few = scene.tasks(2, tenant=2)
    one = scene.task(tenant=3)
    scene.worker(cpus=6).expects(flood[0], few[0], one, flood[1], few[1], flood[2])
    scene.decide()


def test_the_turn_goes_on_where_the_last_plan_stopped() -> None:
    scene = Scene()
    first = scene.tasks(3, tenant=1)
    second = scene.tasks(3, tenant=2)
    worker = scene.worker(cpus=1).expects(first[0])
    scene.decide()
    scene.ends(first[0])
    worker.expects(second[0])
    scene.decide()
    scene.ends(second[0])
    worker.expects(first[1])
    scene.decide()


def test_a_plan_is_bounded_and_the_next_one_continues() -> None:
    scene = Scene()
    tasks = scene.tasks(5)
    worker = scene.worker(cpus=5).expects(*tasks[:2])
    scene.decide(at_most=2)
    worker.expects(*tasks[2:])
    scene.decide(at_most=1000)


def test_a_task_made_urgent_moves_to_the_front_without_a_new_version() -> None:
    scene = Scene()
    first, second = scene.task(), scene.task()
    promoted = replace(second, lane=Lane.URGENT)
    scene.apply(TasksReady([promoted]))
    scene.worker(cpus=2).expects(promoted, first)
    scene.decide()


def test_a_newer_version_replaces_the_one_in_memory_and_an_older_one_does_not() -> None:
    scene = Scene()
    plain, other = scene.task(), scene.task()
    raised = replace(other, version=1, urgency=-10)
    scene.apply(TasksReady([raised]))
    scene.apply(TasksReady([other]))
    scene.worker(cpus=2).expects(raised, plain)
    starts = scene.decide()
    assert [start.task.version for start in starts] == [1, 0]


def test_a_task_that_is_gone_is_not_started() -> None:
    scene = Scene()
    cancelled, kept = scene.tasks(2)
    scene.cancels(cancelled)
    scene.worker().expects(kept)
    scene.decide()


def test_a_task_that_runs_is_not_taken_in_again() -> None:
    scene = Scene()
    task = scene.task()
    worker = scene.worker().expects(task)
    scene.decide()
    scene.apply(TasksReady([task]))
    worker.expects()
    scene.decide()


def test_a_task_that_comes_back_in_a_lower_lane_has_lost_its_place_in_the_higher_one() -> None:
    scene = Scene()
    before, urgent = scene.task(), scene.task(lane=Lane.URGENT)
    scene.cancels(urgent)
    again = replace(urgent, lane=Lane.NORMAL)
    scene.apply(TasksReady([again]))
    scene.worker(cpus=2).expects(before, again)
    scene.decide()


def test_a_pass_over_a_full_pool_asks_no_tenant_and_one_over_freed_room_asks_those_who_are_next() -> None:
    scene = Scene()
    scene.worker(cpus=1)
    first = [scene.task(tenant=tenant) for tenant in range(1, 6)]
    (started,) = scene.order()
    scene.order()
    entries = list(scene.core.state.ranks[2].heap)
    assert len(entries) >= 4, "the others are queued"
    assert scene.order() == []
    assert all(now is before for now, before in zip(scene.core.state.ranks[2].heap, entries, strict=True))
    scene.ends(next(task for task in first if task.id == started))
    assert len(scene.order()) == 1


def test_heads_stay_in_order_as_more_urgent_ones_come_and_first_ones_are_cancelled() -> None:
    scene = Scene()
    small = [scene.task(start_by=seconds, cpus=1) for seconds in (500, 400, 300)]
    large = [scene.task(start_by=seconds, cpus=2) for seconds in (450, 350, 250)]
    scene.cancels(large[2], small[2])
    early = scene.task(start_by=320, cpus=2)
    scene.worker(cpus=16).expects(early, large[1], small[1], large[0], small[0])
    scene.decide()
    assert scene.core.state.tenants[1].queues == {}, "no queue is left"
