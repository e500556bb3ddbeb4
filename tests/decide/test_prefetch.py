"""Prefetching: a worker may be handed work to wait behind what it runs, if it is sure to get to it soon."""

from __future__ import annotations

from rota.decide.messages import StartRefused
from rota.decide.policy import Policy
from tests.decide.scene import Scene


def test_short_work_waits_behind_short_work() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    first, second, third = scene.tasks(3, name="quick", cpus=1)
    scene.worker(cpus=1).expects(first).expects_behind(second, third)
    scene.decide()


def test_work_of_unknown_length_never_waits_behind_anything() -> None:
    scene = Scene()
    first, _ = scene.tasks(2, name="new")
    scene.worker(cpus=1).expects(first)
    scene.decide()


def test_long_work_never_waits_behind_anything() -> None:
    scene = Scene()
    scene.knows("long", milliseconds=Policy().ahead_us / 1000 + 1)
    first, _ = scene.tasks(2, name="long")
    scene.worker(cpus=1).expects(first)
    scene.decide()


def test_short_work_never_waits_behind_long_work() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    scene.knows("long", milliseconds=60_000)
    long = scene.task(name="long", start_by=1)
    scene.task(name="quick", start_by=2)
    scene.worker(cpus=1).expects(long)
    scene.decide()


def test_short_work_never_waits_behind_work_of_unknown_length() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    unknown = scene.task(name="new", start_by=1)
    scene.task(name="quick", start_by=2)
    scene.worker(cpus=1).expects(unknown)
    scene.decide()


def test_short_small_work_never_waits_behind_long_work_that_fills_the_worker() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    long = scene.task(name="long", cpus=2, start_by=1)
    scene.task(name="quick", cpus=0.1, start_by=2)
    scene.worker(cpus=2).expects(long)
    scene.decide()


def test_short_work_waits_behind_the_short_part_of_a_mixed_worker() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    long = scene.task(name="long", start_by=1)
    quick, behind = scene.task(name="quick", start_by=2), scene.task(name="quick", start_by=3)
    scene.worker(cpus=2).expects(long, quick).expects_behind(behind)
    scene.decide()


def test_no_more_waits_than_the_worker_gets_to_in_time() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=20)
    tasks = scene.tasks(10, name="quick")
    scene.worker(cpus=1).expects(tasks[0]).expects_behind(*tasks[1:3])
    scene.decide()


def test_a_wider_worker_is_handed_more() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=20)
    tasks = scene.tasks(20, name="quick")
    scene.worker(cpus=4).expects(*tasks[:4]).expects_behind(*tasks[4:13])
    scene.decide()


def test_a_worker_is_filled_up_once_half_of_what_waited_there_is_gone() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=10)
    tasks = scene.tasks(20, name="quick")
    worker = scene.worker(cpus=1).expects(tasks[0]).expects_behind(*tasks[1:5])
    scene.decide()
    for number in (0, 1):  # 30, then 20 milliseconds are left to wait
        scene.ends(tasks[number], milliseconds=10)
        if number == 0:
            scene.decide()
    worker.expects_behind(*tasks[5:7])
    scene.decide()


def test_what_was_learned_of_one_tenants_work_says_nothing_of_anothers() -> None:
    scene = Scene()
    scene.knows("work", milliseconds=1, tenant=1)
    first = scene.task(tenant=1, name="work")
    scene.task(tenant=2, name="work")
    scene.worker(cpus=1).expects(first)
    scene.decide()


def test_run_times_are_learned_from_attempts_that_end() -> None:
    scene = Scene()
    tasks = scene.tasks(3, name="work")
    worker = scene.worker(cpus=1).expects(tasks[0])
    scene.decide()
    scene.ends(tasks[0], milliseconds=2)
    worker.expects(tasks[1]).expects_behind(tasks[2])
    scene.decide()


def test_an_end_that_teaches_nothing_changes_no_expectation() -> None:
    scene = Scene()
    tasks = scene.tasks(3, name="work")
    worker = scene.worker(cpus=1).expects(tasks[0])
    scene.decide()
    scene.ends(tasks[0], milliseconds=None)
    worker.expects(tasks[1])
    scene.decide()


def test_prefetched_work_takes_freed_resources_in_order() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    first, second, third = scene.tasks(3, name="quick")
    worker = scene.worker(cpus=1).expects(first).expects_behind(second, third)
    scene.decide()
    scene.ends(first)
    node = scene.core.state.nodes[worker.id]
    assert (list(node.held), list(node.behind)) == ([second.id], [third.id])


def test_recalled_work_makes_way_for_the_work_behind_it() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    running = scene.task(name="quick", cpus=3, start_by=1)
    big = scene.task(name="quick", cpus=4, start_by=2)
    worker = scene.worker(cpus=4).expects(running).expects_behind(big)
    scene.decide()
    behind = scene.task(name="quick", cpus=2, start_by=3)
    worker.expects_behind(behind)
    scene.decide()
    scene.ends(running)
    scene.apply(StartRefused(big.id))
    node = scene.core.state.nodes[worker.id]
    assert (list(node.held), list(node.behind), node.free_resources.cpu_milli) == ([behind.id], [], 2000)


def test_nothing_waits_on_a_worker_that_drains() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    first, _ = scene.tasks(2, name="quick")
    worker = scene.worker(cpus=1).expects(first)
    scene.decide(at_most=1)
    worker.drains()
    worker.expects()
    scene.decide()


def test_nothing_waits_where_it_could_never_run() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    first = scene.task(name="quick", start_by=1)
    scene.task(name="quick", cpus=2)
    scene.task(name="quick", require={"zone": "a"})
    scene.worker(cpus=1).expects(first)
    scene.decide()
