"""The pace of a tenant's queue, from which starts deep in it are told: how fast its tasks end while it has some."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.decide.explain import Explanation
from rota.model.queue import ReadyTask
from tests.decide.scene import Scene
from tests.decide.test_every_reason import probe, why

UNTOLD_CAP = 30 * 86_400  # seconds; the longest of the plan, so nobody gave it


def one_machine() -> Scene:
    scene = Scene()
    scene.worker(cpus=1)
    scene.plan_bound(1, seconds=UNTOLD_CAP)
    return scene


def works_off(scene: Scene, tasks: list[ReadyTask], *, seconds: float) -> None:
    for task in tasks:
        scene.order()
        scene.later(seconds=seconds)
        scene.ends(task, milliseconds=1000 * seconds)


def deep(scene: Scene) -> Explanation:
    return why(scene, probe(in_database=99))


def seconds_until(scene: Scene, found: Explanation) -> float:
    assert found.estimated_start_us is not None
    return (found.estimated_start_us - scene.now_us) / 1e6


def test_a_task_deep_in_the_queue_is_told_a_start_from_the_pace_of_its_tenant() -> None:
    scene = one_machine()
    tasks = scene.tasks(30, cap=UNTOLD_CAP)
    works_off(scene, tasks[:20], seconds=1)
    found = deep(scene)
    assert found.basis == "throughput"
    assert seconds_until(scene, found) == pytest.approx(100, rel=0.1)


def test_time_without_tasks_is_no_part_of_the_pace() -> None:
    scene = one_machine()
    works_off(scene, scene.tasks(12, cap=UNTOLD_CAP), seconds=0.1)
    scene.later(seconds=40)
    tasks = scene.tasks(40, cap=UNTOLD_CAP)
    works_off(scene, tasks[:20], seconds=1)
    assert seconds_until(scene, deep(scene)) == pytest.approx(100, rel=0.1)


def test_cancelled_tasks_leave_no_pace_behind() -> None:
    scene = one_machine()
    first = scene.tasks(30, cap=UNTOLD_CAP)
    works_off(scene, first[:20], seconds=0.1)
    scene.cancels(*first[20:])
    scene.later(seconds=40)
    tasks = scene.tasks(40, cap=UNTOLD_CAP)
    works_off(scene, tasks[:20], seconds=1)
    assert seconds_until(scene, deep(scene)) == pytest.approx(100, rel=0.1)


def test_a_pace_reaches_over_the_end_of_a_window() -> None:
    scene = one_machine()
    works_off(scene, scene.tasks(200, cap=UNTOLD_CAP)[:90], seconds=1)
    assert seconds_until(scene, deep(scene)) == pytest.approx(100, rel=0.1)


def test_a_delayed_task_starts_at_its_time_whatever_runs_until_then() -> None:
    scene = one_machine()
    scene.tasks(1, cap=600)
    scene.order()
    found = why(scene, probe(not_before_us=scene.now_us + 3_600_000_000))
    assert (found.basis, found.run_times) == ("its-time", None)
    assert seconds_until(scene, found) == 3600


def test_a_delayed_task_that_has_to_wait_longer_is_told_so() -> None:
    scene = one_machine()
    scene.tasks(1, cap=600)
    scene.order()
    found = why(scene, probe(not_before_us=scene.now_us + 60_000_000))
    assert (found.basis, found.run_times) == ("running-tasks", "cap")
    assert seconds_until(scene, found) == 600


def test_what_comes_after_a_planned_task_is_told_by_the_run_times_of_tasks_of_its_size() -> None:
    scene = one_machine()
    works_off(scene, scene.tasks(3, cap=UNTOLD_CAP, name="other"), seconds=20)
    first = probe()
    first = replace(first, task=replace(first.task, cap_ms=1000 * UNTOLD_CAP), shape=scene.core.state.shapes[1])
    second = replace(first, task=replace(first.task, id=first.task.id + 1), after=(first.task.id,))
    found = scene.core.forecast(scene.now_us, [first, second])
    assert found.starts[second.task.id].at_us == pytest.approx(scene.now_us + 20_000_000)
    assert found.starts[second.task.id].source == "shape"
