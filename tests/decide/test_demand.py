"""The demand signal and the overview: what operators add and remove machines by."""

from __future__ import annotations

from msgspec.structs import replace

from rota.decide.messages import TasksReady
from rota.decide.policy import Policy
from rota.model.node import Closed
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


def test_tasks_that_nobody_gave_a_tolerance_are_never_late_and_need_no_more_nodes() -> None:
    scene = Scene()
    scene.worker(cpus=1)
    scene.knows("work", milliseconds=60_000)
    scene.tasks(500, start_by=1, tolerated=False)
    scene.order()
    scene.later(seconds=30)
    found = scene.core.demand(scene.now_us)
    assert (found.late, found.missing, found.ready, found.looked_at) == (0, [], 499, 499)


def test_a_task_is_late_by_its_tolerance_and_not_by_its_place_in_the_queue() -> None:
    scene = Scene()
    scene.worker(cpus=1)
    scene.knows("work", milliseconds=60_000)
    task = scene.task()
    scene.order()
    scene.apply(TasksReady([replace(task, id=100 + n, start_by_us=0, leeway_ms=90_000) for n in range(3)]))
    found = scene.core.demand(scene.now_us)  # starts in 60, 120 and 180 s, and may be delayed for 90 s
    assert (found.late, [(one.nodes, one.tasks) for one in found.missing]) == (2, [(1, 2)])


def test_what_no_node_could_hold_is_counted_apart_and_needs_nodes_of_what_it_asks_for() -> None:
    scene = Scene()
    scene.worker(cpus=4)
    scene.tasks(3, cpus=64, memory=GIGABYTE, tolerated=False)
    scene.task(cpus=32, memory=GIGABYTE)  # shares the node of 64
    scene.task(cpus=1, memory=500 * GIGABYTE)
    scene.task(cpus=1, gpus=0.5)
    scene.task(require={"zone": "b"})
    found = scene.core.demand(scene.now_us)
    assert [(one.tasks, one.asks.cpu_milli, one.require) for one in found.unplaceable] == [
        (3, 64_000, {}),
        (1, 32_000, {}),
        (1, 1000, {}),
        (1, 1000, {}),
        (1, 1000, {"zone": "b"}),
    ]
    assert [
        (one.nodes, one.tasks, one.capacity.cpu_milli, one.capacity.memory_bytes, one.capacity.gpus, one.require)
        for one in found.missing
    ] == [
        (1, 1, 4000, 8 * GIGABYTE, 0, {"zone": "b"}),  # like the largest, with the label
        (1, 1, 1000, 0, 1, {}),
        (1, 1, 1000, 500 * GIGABYTE, 0, {}),
        (1, 4, 64_000, GIGABYTE, 0, {}),
    ]
    assert (found.late, found.looked_at) == (0, 7)


def test_as_many_nodes_are_missing_for_what_no_node_could_hold_as_let_it_start_in_time() -> None:
    scene = Scene()
    scene.knows("work", milliseconds=60_000)
    scene.tasks(6, cpus=64, start_by=70)  # on a pool without any node, two on each in time
    missing = scene.core.demand(scene.now_us).missing
    assert [(one.nodes, one.tasks, one.capacity.cpu_milli) for one in missing] == [(3, 6, 64_000)]


def test_what_only_a_draining_node_could_hold_needs_another_node_like_it() -> None:
    scene = Scene()
    scene.worker(cpus=8, labels={"zone": "b"}).drains()
    scene.worker(cpus=2)
    scene.tasks(2, cpus=1, require={"zone": "b"}, start_by=0)
    scene.task(cpus=4, tolerated=False)
    found = scene.core.demand(scene.now_us)
    assert [(one.nodes, one.tasks, one.capacity.cpu_milli) for one in found.missing] == [(1, 3, 8000)]
    assert (found.late, found.unplaceable) == (2, [])


def test_tasks_beyond_the_limits_of_their_tenant_key_or_pool_need_no_nodes() -> None:
    def missing(scene: Scene) -> list[tuple[int, int]]:
        return [(one.nodes, one.tasks) for one in scene.core.demand(scene.now_us).missing]

    scene = Scene()
    scene.worker(cpus=1).drains()
    scene.tenant(1, running=2)
    scene.tasks(50, start_by=0)
    scene.tenant(2, cpus=3)
    scene.tasks(50, tenant=2, start_by=0)
    scene.tasks(50, tenant=3, start_by=0, key="one", limit=4)
    assert missing(scene) == [(9, 9)]
    scene.policy(Policy(pool_running_limit=5))
    assert missing(scene) == [(5, 5)]


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


def test_no_node_is_idle_while_work_waits_that_it_could_help() -> None:
    scene = Scene()
    small = scene.worker(cpus=4)
    scene.task(cpus=64)
    assert scene.core.demand(scene.now_us).idle == [small.id], "it could not hold what waits"
    scene.tenant(1, running=0)
    waiting = scene.task(cpus=1)
    assert scene.core.demand(scene.now_us).idle == [small.id], "no node helps a tenant at its limit"
    scene.tenant(1)
    assert scene.core.demand(scene.now_us).idle == []
    scene.cancels(waiting)
    assert scene.core.demand(scene.now_us).idle == [small.id]


def test_a_node_reserved_for_a_task_is_not_idle() -> None:
    scene = Scene()
    worker = scene.worker(cpus=4)
    scene.lane(9, level=1, gated=True)
    scene.worker(cpus=4).closes(Closed.FULL)
    scene.task(cpus=4, lane=9)
    scene.policy(Policy(peak_ppm=0))
    scene.order()
    assert (worker.free.cpu_milli, scene.core.demand(scene.now_us).idle) == (4000, [])


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
