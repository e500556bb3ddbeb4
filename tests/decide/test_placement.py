"""The node of a task: free resources in every dimension, labels, the tightest fit, and nodes that take no new work."""

from __future__ import annotations

import pytest

from rota.decide.messages import StartRefused
from rota.model.resources import Resources
from tests.decide.scene import GIGABYTE, Scene


def test_a_worker_gets_as_much_as_it_has_room_for() -> None:
    scene = Scene()
    a, b, _ = scene.tasks(3, cpus=2)
    scene.worker(cpus=4).expects(a, b)
    scene.decide()


@pytest.mark.parametrize(
    ("asked", "has"),
    [
        ({"cpus": 3}, {"cpus": 5}),
        ({"memory": 3 * GIGABYTE}, {"memory": 5 * GIGABYTE}),
        ({"disk": 30 * GIGABYTE}, {"disk": 50 * GIGABYTE}),
        ({"gpus": 1}, {"gpus": 1}),
        ({"ports": 2}, {"ports": 3}),
        ({"license": 2}, {"license": 3}),
    ],
    ids=["cpus", "memory", "disk", "gpus", "ports", "custom"],
)
def test_every_resource_is_counted(asked: dict[str, int], has: dict[str, int]) -> None:
    scene = Scene()
    first, second = scene.tasks(2, **asked)
    worker = scene.worker(**{"cpus": 100, **has}).expects(first)
    scene.decide()
    scene.ends(first)
    worker.expects(second)
    scene.decide()


def test_a_resource_a_worker_does_not_have_is_not_there() -> None:
    scene = Scene()
    scene.task(gpus=1)
    scene.task(license=1)
    scene.worker(cpus=64)
    scene.decide()


def test_a_big_task_that_does_not_fit_lets_small_ones_pass() -> None:
    scene = Scene()
    scene.task(cpus=8, start_by=1)
    small = scene.task(cpus=1, start_by=900)
    scene.worker(cpus=4).expects(small)
    scene.decide()


def test_labels_must_all_match() -> None:
    scene = Scene()
    zoned = scene.task(require={"zone": "a"})
    both = scene.task(cpus=2, require={"zone": "a", "disk": "ssd"})
    scene.task(require={"zone": "c"})
    scene.worker(labels={"zone": "b", "disk": "ssd"})
    scene.worker(cpus=1, labels={"zone": "a"}).expects(zoned)
    scene.worker(cpus=2, labels={"zone": "a", "disk": "ssd"}).expects(both)
    scene.decide()


def test_the_tightest_fit_wins_so_that_big_tasks_still_find_a_hole() -> None:
    scene = Scene()
    small = scene.task(cpus=2)
    big = scene.task(cpus=8)
    scene.worker(cpus=8).expects(big)
    scene.worker(cpus=3).expects(small)
    scene.decide()


def test_gpu_workers_are_kept_for_gpu_work_while_others_have_room() -> None:
    scene = Scene()
    plain = scene.tasks(3, cpus=1)
    scene.worker(cpus=1, gpus=1).expects(plain[2])
    scene.worker(cpus=2).expects(*plain[:2])
    scene.decide()


def test_a_draining_worker_and_one_that_left_get_nothing() -> None:
    scene = Scene()
    task = scene.task()
    scene.worker().drains()
    scene.worker().leaves()
    scene.worker().expects(task)
    scene.decide()


def test_what_a_worker_held_when_it_left_stays_held_until_it_is_reported_ended() -> None:
    scene = Scene()
    running, waiting = scene.tasks(2, cpus=4)
    worker = scene.worker(cpus=4).expects(running)
    scene.decide()
    worker.leaves()
    scene.rejoin(worker, cpus=4)
    worker.expects()
    scene.decide()
    scene.ends(running)
    worker.expects(waiting)
    scene.decide()


def test_attempts_adopted_from_an_earlier_leader_hold_their_room_once_their_worker_is_there() -> None:
    scene = Scene()
    adopted, waiting = scene.tasks(2, cpus=3)
    elsewhere = scene.worker(cpus=1)
    scene.holds(elsewhere, adopted)
    scene.rejoin(elsewhere, cpus=4)
    assert elsewhere.free.cpu_milli == 1000
    elsewhere.expects()
    scene.decide()
    scene.ends(adopted)
    elsewhere.expects(waiting)
    scene.decide()


def test_a_worker_that_comes_back_smaller_keeps_what_no_longer_fits_behind() -> None:
    scene = Scene()
    first, second = scene.tasks(2, cpus=2)
    worker = scene.worker(cpus=4).expects(first, second)
    scene.decide()
    scene.rejoin(worker, cpus=2)
    assert worker.free.cpu_milli == 0
    scene.ends(first)
    assert worker.free.cpu_milli == 0, "the second took the resources of the first"


def test_a_start_the_store_refused_gives_its_room_back() -> None:
    scene = Scene()
    stale, next_one = scene.tasks(2, cpus=4)
    worker = scene.worker(cpus=4).expects(stale)
    scene.decide()
    scene.apply(StartRefused(stale.id))
    worker.expects(next_one)
    scene.decide()


def test_the_end_of_an_unknown_attempt_changes_nothing() -> None:
    scene = Scene()
    task = scene.task(cpus=2)
    worker = scene.worker(cpus=4).expects(task)
    scene.decide()
    scene.ends(task)
    scene.ends(task)
    assert worker.free == Resources(cpu_milli=4000, memory_bytes=8 * GIGABYTE, disk_bytes=100 * GIGABYTE, ports=10)


def test_without_workers_nothing_starts_and_nothing_is_forgotten() -> None:
    scene = Scene()
    tasks = scene.tasks(3)
    assert scene.order() == []
    scene.worker(cpus=3).expects(*tasks)
    scene.decide()


def test_room_freed_after_a_shape_last_looked_is_found_though_it_had_not_looked_everywhere_then() -> None:
    scene = Scene()
    for _ in range(20):
        scene.worker(cpus=2)
    earlier = scene.tasks(40, cpus=1)
    assert len(scene.order()) == len(earlier)
    scene.ends(*earlier)
    small = scene.tasks(4, cpus=1)
    assert len(scene.order()) == 4  # two on the node it knew, two on one of those that got room
    large = scene.tasks(18, cpus=2)
    assert len(scene.order()) == len(large)
    scene.ends(small[0])
    late = scene.task(cpus=1)
    assert scene.order() == [late.id]
