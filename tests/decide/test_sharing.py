"""Async calls: many of one function run at the same time within one grant, however long each takes."""

from __future__ import annotations

from tests.decide.scene import Scene


def test_long_calls_that_share_a_grant_are_all_sent_to_the_node_that_runs_one() -> None:
    scene = Scene()
    scene.knows("fetch", milliseconds=5_000, calls_per_grant=4)
    tasks = scene.tasks(20, name="fetch")
    scene.worker(cpus=2).expects(*tasks[:2]).expects_behind(*tasks[2:8])
    scene.decide()


def test_they_are_known_by_the_first_that_ended_and_forgotten_by_one_that_ran_alone() -> None:
    scene = Scene()
    tasks = scene.tasks(9, name="fetch")
    worker = scene.worker(cpus=1).expects(tasks[0])
    scene.decide()
    scene.ends(tasks[0], milliseconds=5_000, calls_per_grant=4)
    worker.expects(tasks[1]).expects_behind(*tasks[2:5])
    scene.decide()
    scene.ends(*tasks[1:5], milliseconds=5_000, calls_per_grant=1)
    worker.expects(tasks[5])
    scene.decide()


def test_each_that_ends_lets_another_in_and_the_grant_passes_on() -> None:
    scene = Scene()
    scene.knows("fetch", milliseconds=5_000, calls_per_grant=3)
    tasks = scene.tasks(6, name="fetch")
    worker = scene.worker(cpus=1).expects(tasks[0]).expects_behind(*tasks[1:3])
    scene.decide()
    scene.ends(tasks[0], milliseconds=5_000, calls_per_grant=3)
    worker.expects_behind(tasks[3])
    scene.decide()
    node = scene.core.state.nodes[worker.id]
    assert (list(node.held), list(node.behind)) == ([tasks[1].id], [tasks[2].id, tasks[3].id])
    scene.core.state.check()


def test_nobody_elses_work_and_no_other_shape_joins_them() -> None:
    scene = Scene()
    for tenant in (1, 2):
        scene.knows("fetch", milliseconds=5_000, calls_per_grant=4, tenant=tenant)
    first = scene.task(name="fetch", start_by=1)
    scene.task(name="fetch", tenant=2)
    scene.task(name="fetch", cpus=0.5)
    scene.task(name="other")
    scene.worker(cpus=1).expects(first)
    scene.decide()


def test_short_work_does_not_wait_behind_them_and_they_do_not_keep_it_from_where_it_may_wait() -> None:
    scene = Scene()
    scene.knows("fetch", milliseconds=5_000, calls_per_grant=4)
    scene.knows("quick", milliseconds=1)
    fetches = scene.tasks(4, name="fetch", start_by=1)
    scene.worker(cpus=1).expects(fetches[0]).expects_behind(*fetches[1:])
    scene.decide()
    scene.task(name="quick", start_by=2)
    scene.decide()
    first, second = scene.tasks(2, name="quick", cpus=1, start_by=3)
    # A second place, for short work: behind it there is room, whatever shares the first.
    other = scene.worker(cpus=1)
    starts = scene.core.plan(scene.now_us, 10)
    assert {start.node for start in starts} == {other.id}  # type: ignore[union-attr]
    assert len(starts) == 3
    del first, second


def test_what_shares_a_grant_is_charged_once_for_it() -> None:
    alone, shared = Scene(), Scene()
    shared.knows("fetch", milliseconds=10_000, calls_per_grant=4)
    for scene in (alone, shared):
        tasks = scene.tasks(4 if scene is shared else 1, name="fetch")
        scene.worker(cpus=1)
        scene.core.plan(scene.now_us, 10)
        scene.later(seconds=10)
        scene.ends(*reversed(tasks), milliseconds=10_000, calls_per_grant=4)
    paid = [scene.core.state.tenants[1].key for scene in (alone, shared)]
    assert paid[0] <= paid[1] < 2 * paid[0]
