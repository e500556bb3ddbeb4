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
