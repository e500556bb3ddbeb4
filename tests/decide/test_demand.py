"""The demand signal and the overview: what operators add and remove machines by."""

from __future__ import annotations

from rota.model.task import Lane
from tests.decide.scene import GIGABYTE, Scene


def test_utilisation_and_what_ready_tasks_ask_for() -> None:
    scene = Scene()
    scene.worker(cpus=4, memory=8 * GIGABYTE)
    scene.tasks(4, cpus=1.5)
    scene.order()
    found = {one.name: one for one in scene.core.demand(scene.now_us).resources}
    cpu = found["cpu"]
    assert (cpu.total, cpu.used, cpu.asked) == (4000, 3000, 3000)
    assert (cpu.utilisation_ppm, cpu.asked_of_free_ppm, cpu.asked_of_total_ppm) == (750_000, 3_000_000, 750_000)
    assert found["memory"].utilisation_ppm == 0


def test_nothing_is_missing_while_all_start_in_time() -> None:
    scene = Scene()
    scene.worker(cpus=1)
    scene.knows("work", milliseconds=10_000)
    scene.tasks(10, start_by=100, cap=10)
    scene.order()
    found = scene.core.demand(scene.now_us)
    assert (found.late, found.missing, found.ready, found.looked_at) == (0, [], 9, 9)


def test_as_many_nodes_are_missing_as_let_all_start_in_time() -> None:
    scene = Scene()
    scene.worker(cpus=2)
    scene.knows("work", milliseconds=60_000)
    scene.tasks(2, cap=600)
    scene.order()
    scene.tasks(8, start_by=30)  # none of them fits before: 4 more nodes of 2 cores
    found = scene.core.demand(scene.now_us)
    assert found.late == 8
    assert [(one.nodes, one.capacity.cpu_milli, one.tasks) for one in found.missing] == [(4, 2000, 8)]


def test_a_missing_node_is_used_again_within_the_time_there_is() -> None:
    scene = Scene()
    scene.worker(cpus=2)
    scene.knows("work", milliseconds=60_000)
    scene.tasks(2, cap=6000, name="long")
    scene.order()
    scene.tasks(8, start_by=180, name="work")  # 2 at once, each for a minute: 4 rounds by then
    assert [(one.nodes, one.tasks) for one in scene.core.demand(scene.now_us).missing] == [(1, 8)]


def test_what_no_node_could_hold_is_counted_apart() -> None:
    scene = Scene()
    scene.worker(cpus=4)
    scene.tasks(3, cpus=64)
    scene.task(require={"zone": "b"})
    found = scene.core.demand(scene.now_us)
    assert [(one.tasks, one.asks.cpu_milli, one.require) for one in found.unplaceable] == [
        (3, 64_000, {}),
        (1, 1000, {"zone": "b"}),
    ]
    assert (found.missing, found.late, found.looked_at) == ([], 0, 0)


def test_gpus_are_counted_device_by_device() -> None:
    scene = Scene()
    scene.worker(cpus=8, gpus=2)
    scene.tasks(3, gpus=0.6, start_by=0)
    scene.order()
    found = scene.core.demand(scene.now_us)
    assert [(one.nodes, one.tasks) for one in found.missing] == [(1, 1)]


def test_idle_nodes_are_named_and_draining_ones_are_not() -> None:
    scene = Scene()
    scene.worker(cpus=1, labels={"zone": "a"})
    idle = scene.worker(cpus=1, labels={"zone": "b"})
    scene.worker(cpus=1).drains()
    scene.task(require={"zone": "a"})
    scene.order()
    assert scene.core.demand(scene.now_us).idle == [idle.id]


def test_looking_changes_nothing() -> None:
    scene = Scene()
    scene.worker(cpus=2, gpus=1)
    scene.tasks(6, cpus=1)
    scene.tasks(2, gpus=1)
    scene.order()
    before = scene.core.state.digest()
    assert scene.core.demand(scene.now_us) == scene.core.demand(scene.now_us)
    scene.core.overview()
    assert scene.core.state.digest() == before
    scene.core.state.check()


def test_the_overview_shows_lanes_shares_nodes_and_reservations() -> None:
    scene = Scene()
    worker = scene.worker(cpus=4, memory=8 * GIGABYTE)
    scene.task(tenant=1, cpus=3)
    scene.task(tenant=2, cpus=1, lane=Lane.URGENT)
    scene.order()
    scene.task(tenant=2, cpus=1, lane=Lane.OFF_PEAK)
    found = scene.core.overview()
    assert (found.utilisation_ppm, found.ready, found.running) == (1_000_000, 1, 2)
    assert [(one.lanes, one.gated, one.ready, one.running) for one in found.ranks] == [
        ([0], False, 0, 1),
        ([1, 2], False, 0, 1),
        ([3], True, 1, 0),
    ]
    assert [(one.tenant, one.held_ppm, one.running) for one in found.tenants] == [(1, 750_000, 1), (2, 250_000, 1)]
    worker.drains()
    assert [one.held_ppm for one in scene.core.overview().tenants] == [750_000, 250_000], (
        "what runs there is held still"
    )
    assert sum(one.charged_ppm for one in found.tenants) in (999_999, 1_000_000)
    assert [(one.node, one.open, one.held, one.free.cpu_milli) for one in found.nodes] == [(worker.id, True, 2, 0)]
