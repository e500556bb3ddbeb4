"""Concurrency keys and limits of plans: how many tasks may run at once, for each owner alone."""

from __future__ import annotations

from rota.decide.messages import TasksReady
from tests.decide.scene import GIGABYTE, Scene


def test_one_task_with_a_key_runs_at_a_time() -> None:
    scene = Scene()
    first, second = scene.tasks(2, key="database")
    free = scene.task()
    worker = scene.worker(cpus=8).expects(first, free)
    scene.decide()
    scene.ends(first)
    worker.expects(second)
    scene.decide()


def test_a_key_lets_as_many_run_as_its_limit_says() -> None:
    scene = Scene()
    tasks = scene.tasks(5, key="api", limit=3)
    worker = scene.worker(cpus=8).expects(*tasks[:3])
    scene.decide()
    scene.ends(tasks[1])
    worker.expects(tasks[3])
    scene.decide()


def test_a_full_key_does_not_hold_up_other_tasks_of_its_tenant() -> None:
    scene = Scene()
    keyed = scene.tasks(3, key="slow", priority=10)
    others = scene.tasks(2)
    scene.worker(cpus=8).expects(keyed[0], *others)
    scene.decide()


def test_a_key_belongs_to_its_tenant() -> None:
    scene = Scene()
    ours = scene.tasks(2, tenant=1, key="database")
    theirs = scene.tasks(2, tenant=2, key="database")
    scene.worker(cpus=8).expects(ours[0], theirs[0])
    scene.decide()


def test_keyed_tasks_keep_their_order_while_they_wait() -> None:
    scene = Scene()
    running = scene.task(key="one", start_by=1)
    later, sooner = scene.task(key="one", start_by=900), scene.task(key="one", start_by=100)
    worker = scene.worker(cpus=8).expects(running)
    scene.decide()
    scene.ends(running)
    worker.expects(sooner)
    scene.decide()
    scene.ends(sooner)
    worker.expects(later)
    scene.decide()


def test_a_key_is_held_by_attempts_adopted_from_an_earlier_leader() -> None:
    scene = Scene()
    adopted, waiting = scene.tasks(2, key="one")
    worker = scene.worker(cpus=8)
    scene.holds(worker, adopted)
    worker.expects()
    scene.decide()
    scene.ends(adopted)
    worker.expects(waiting)
    scene.decide()


def test_a_waiting_keyed_task_that_is_cancelled_is_not_started_when_the_key_is_free() -> None:
    scene = Scene()
    running, cancelled, last = scene.tasks(3, key="one")
    worker = scene.worker(cpus=8).expects(running)
    scene.decide()
    scene.cancels(cancelled)
    scene.ends(running)
    worker.expects(last)
    scene.decide()


def test_a_waiting_keyed_task_that_is_reported_ready_again_is_started_once() -> None:
    scene = Scene()
    running, waiting = scene.tasks(2, key="one")
    worker = scene.worker(cpus=8).expects(running)
    scene.decide()
    scene.apply(TasksReady([waiting]))
    scene.ends(running)
    worker.expects(waiting)
    scene.decide()
    assert scene.order() == []


def test_a_plan_caps_the_cores_a_tenant_runs_at_once() -> None:
    scene = Scene()
    scene.tenant(1, cpus=3)
    capped = scene.tasks(4, tenant=1, cpus=2)
    free = scene.tasks(2, tenant=2, cpus=2)
    worker = scene.worker(cpus=16).expects(capped[0], *free)
    scene.decide()
    scene.ends(capped[0])
    worker.expects(capped[1])
    scene.decide()


def test_a_plan_caps_the_memory_a_tenant_runs_at_once() -> None:
    scene = Scene()
    scene.tenant(1, memory=3 * GIGABYTE)
    capped = scene.tasks(2, tenant=1, memory=2 * GIGABYTE)
    scene.worker(cpus=16).expects(capped[0])
    scene.decide()


def test_a_smaller_task_uses_what_a_cap_leaves() -> None:
    scene = Scene()
    scene.tenant(1, cpus=3)
    first = scene.task(cpus=2, start_by=1)
    scene.task(cpus=2, start_by=2)
    small = scene.task(cpus=1, start_by=3)
    scene.worker(cpus=16).expects(first, small)
    scene.decide()


def test_a_raised_cap_counts_from_the_next_plan_on() -> None:
    scene = Scene()
    scene.tenant(1, cpus=1)
    tasks = scene.tasks(3)
    worker = scene.worker(cpus=8).expects(tasks[0])
    scene.decide()
    scene.tenant(1, cpus=3)
    worker.expects(*tasks[1:])
    scene.decide()


def test_prefetched_work_counts_against_the_cap() -> None:
    scene = Scene()
    scene.tenant(1, cpus=2)
    scene.knows("work", milliseconds=1)
    tasks = scene.tasks(3, cpus=1)
    scene.worker(cpus=1).expects(tasks[0]).expects_behind(tasks[1])
    scene.decide()
