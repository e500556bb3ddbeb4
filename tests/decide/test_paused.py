"""A paused pool and a paused tenant start nothing new; what runs goes on; a task that was edited is the newer one (R50)."""

from __future__ import annotations

from msgspec.structs import replace

from rota.decide.messages import Start, TasksGone, TasksReady
from rota.decide.policy import Policy
from rota.model.task import Lane
from tests.decide.scene import Scene


def test_a_paused_pool_starts_nothing_and_asks_nobody_to_give_way() -> None:
    scene = Scene()
    worker = scene.worker(cpus=2)
    first, second = scene.tasks(2, preemptible=True)
    worker.expects(first, second)
    scene.decide()
    scene.policy(Policy(paused=True))
    waiting = scene.task(lane=Lane.URGENT, start_by=0)
    scene.later(seconds=60)
    scene.decide()
    found = scene.core.explain(waiting.id, scene.now_us, {})
    assert found is not None
    assert (found.reason, found.estimated_start_us) == ("pool-paused", None)
    scene.ends(first, second)
    scene.decide()
    assert scene.core.overview().paused
    demand = scene.core.demand(scene.now_us)
    assert (demand.ready, demand.late, demand.missing) == (1, 0, [])
    scene.policy(Policy())
    worker.expects(waiting)
    scene.decide()


def test_a_paused_tenant_starts_nothing_while_others_go_on() -> None:
    scene = Scene()
    worker = scene.worker(cpus=8)
    running = scene.task(tenant=1)
    worker.expects(running)
    scene.decide()
    scene.tenant(1, paused=True)
    mine, other = scene.task(tenant=1, lane=Lane.URGENT), scene.task(tenant=2)
    worker.expects(other)
    scene.decide()
    found = scene.core.explain(mine.id, scene.now_us, {})
    assert found is not None
    assert found.reason == "tenant-paused"
    [load] = [one for one in scene.core.overview().tenants if one.tenant == 1]
    assert (load.paused, load.running, load.ready) == (True, 1, 1)
    scene.ends(running)
    scene.decide()
    scene.tenant(1)
    worker.expects(mine)
    scene.decide()


def test_a_paused_tenant_keeps_no_place_and_no_one_is_asked_to_leave_for_it() -> None:
    scene = Scene()
    worker = scene.worker(cpus=4)
    held = scene.tasks(4, tenant=2, preemptible=True)
    worker.expects(*held)
    scene.decide()
    scene.tenant(1, paused=True)
    scene.task(tenant=1, cpus=4, lane=Lane.URGENT, start_by=0)
    scene.later(seconds=3600)
    scene.decide()
    assert not scene.core.state.reservations


def test_an_edited_task_takes_its_new_place_in_line_and_the_old_entry_is_nothing() -> None:
    scene = Scene()
    first, second, third = scene.tasks(3)
    changed = replace(third, version=1, urgency=-9)
    scene.apply(TasksGone([third.id]))
    scene.apply(TasksReady([changed]))
    scene.worker(cpus=3)
    assert scene.order(at_most=2) == [third.id, first.id]
    assert scene.order() == [second.id]


def test_a_stale_copy_of_an_edited_task_changes_nothing() -> None:
    """A hint and a poll may bring the two in either order."""
    scene = Scene()
    task = scene.task()
    moved = replace(task, version=1, lane=int(Lane.OFF_PEAK))
    scene.apply(TasksReady([moved]))
    scene.apply(TasksReady([task]))
    scene.worker(cpus=1)
    [start] = scene.core.plan(0, 10)
    assert isinstance(start, Start)
    assert start.task == moved
