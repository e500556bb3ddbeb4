"""A place kept for a task whose tenant may not run it keeps the worker idle."""

from __future__ import annotations

from tests.decide.scene import Scene


def test_a_place_kept_for_a_tenant_at_its_cap_is_free_for_others() -> None:
    scene = Scene()
    blocker = scene.task(tenant=2, cpus=3, cap=1000)
    worker = scene.worker(cpus=4).expects(blocker)
    scene.decide()
    scene.task(tenant=1, cpus=4, start_by=0)
    waiting = scene.task(tenant=3, cap=50_000)
    scene.decide()
    scene.tenant(1, running=0)
    scene.ends(blocker)
    worker.expects(waiting)
    scene.decide()


def test_a_place_kept_for_a_task_whose_key_is_full_is_free_for_others() -> None:
    scene = Scene()
    blocker = scene.task(tenant=2, cpus=3, cap=1000)
    worker = scene.worker(cpus=4).expects(blocker)
    scene.decide()
    scene.task(tenant=1, cpus=4, start_by=0, key="one")
    waiting = scene.task(tenant=3, cap=50_000)
    scene.decide()
    holder = scene.task(tenant=1, key="one")
    scene.holds(scene.worker(cpus=1), holder)
    scene.ends(blocker)
    worker.expects(waiting)
    scene.decide()
