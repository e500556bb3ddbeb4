"""Why a task waits, according to the core: a slug, a sentence with numbers, a queue position, an estimate."""

from __future__ import annotations

import copy

from rota.decide.explain import Explanation, Probe
from rota.decide.policy import Policy
from rota.model.node import Closed
from rota.model.queue import ReadyTask
from rota.model.resources import Resources, Shape
from rota.model.task import Lane
from tests.decide.scene import GIGABYTE, SECOND_US, Scene, work_of

NAMES = {1: "node-1", 2: "node-2", 3: "node-3"}


def why(scene: Scene, task: ReadyTask) -> Explanation:
    """What the core says of it; and saying it changes nothing."""
    before = copy.deepcopy(scene.core.state.digest())
    found = scene.core.explain(task.id, scene.now_us, NAMES)
    assert scene.core.state.digest() == before
    assert found is not None
    return found


def reason_of(scene: Scene, task: ReadyTask) -> tuple[str, str]:
    found = why(scene, task)
    return found.reason, found.sentence


def test_a_running_task_says_where_and_for_how_long() -> None:
    scene = Scene()
    task = scene.task()
    scene.worker(cpus=1)
    scene.order()
    scene.later(seconds=42)
    assert reason_of(scene, task) == ("running", "it has run on node-1 for 42 s")
    assert why(scene, task).likely_node == 1


def test_a_prefetched_task_counts_those_before_it_on_its_node() -> None:
    scene = Scene()
    scene.knows("short", milliseconds=5)
    tasks = scene.tasks(3, name="short")
    scene.worker(cpus=1)
    scene.order()
    found = why(scene, tasks[2])
    assert (found.reason, found.sentence) == ("prefetched", "it is on node-1 already and starts there behind 2 tasks")
    assert found.estimated_start_us is not None
    assert 5_000 <= found.estimated_start_us - scene.now_us <= 10_000


def test_a_task_unknown_to_the_core_has_no_explanation() -> None:
    assert Scene().core.explain(5, 0, {}) is None


def test_an_empty_pool_has_no_nodes() -> None:
    scene = Scene()
    task = scene.task()
    assert reason_of(scene, task) == ("no-nodes", "no node of the pool is connected")


def test_what_no_node_could_hold_names_the_resource_and_the_most_there_is() -> None:
    scene = Scene()
    scene.worker(cpus=4, memory=8 * GIGABYTE)
    scene.worker(cpus=8, memory=2 * GIGABYTE)
    memory = scene.task(memory=16 * GIGABYTE)
    gpus = scene.task(gpus=2)
    custom = scene.task(license=1)
    both = scene.task(cpus=8, memory=8 * GIGABYTE)
    scene.order()
    never = "no node could ever hold it: "
    assert reason_of(scene, memory) == (
        "unplaceable",
        never + "it asks for 16GB of memory, the most any node has is 8GB",
    )
    assert reason_of(scene, gpus) == ("unplaceable", never + "it asks for 2 GPUs, no node has any")
    assert reason_of(scene, custom) == ("unplaceable", never + "it asks for 1 of license, no node has any")
    assert reason_of(scene, both) == (
        "unplaceable",
        never + "each amount is there on some node, but all of them on none",
    )
    found = why(scene, memory)
    assert (found.estimated_start_us, found.basis, found.suitable_nodes) == (None, "unknown", 0)


def test_labels_that_no_node_has_are_named() -> None:
    scene = Scene()
    scene.worker(labels={"zone": "a"})
    task = scene.task(require={"zone": "b", "disk": "ssd"})
    scene.order()
    assert reason_of(scene, task) == ("no-such-label", "no node has the labels it requires: disk=ssd, zone=b")


def test_a_draining_node_is_named_as_the_reason() -> None:
    scene = Scene()
    scene.worker().drains()
    task = scene.task()
    scene.order()
    alone = "the 1 node that could hold it is draining and takes nothing new"
    assert reason_of(scene, task) == ("draining", alone)
    scene.worker().drains()
    assert reason_of(scene, task) == ("draining", "the 2 nodes that could hold it are draining and take nothing new")


def test_a_node_without_disk_space_has_another_reason_than_one_that_drains_or_leaves() -> None:
    scene = Scene()
    full = scene.worker().closes(Closed.FULL)
    task = scene.task()
    scene.order()
    alone = "the 1 node that could hold it is out of disk space and takes nothing new"
    assert reason_of(scene, task) == ("disk-full", alone)
    scene.worker().closes(Closed.FULL)
    assert reason_of(scene, task) == (
        "disk-full",
        "the 2 nodes that could hold it are out of disk space and take nothing new",
    )
    scene.worker().drains()
    mixed = "no node that could hold it takes anything new: 2 are out of disk space and 1 is draining"
    assert reason_of(scene, task) == ("disk-full", mixed)
    full.closes(Closed.LEAVING)
    mixed = (
        "no node that could hold it takes anything new: 1 is out of disk space, 1 is draining and 1 is about to leave"
    )
    assert reason_of(scene, task) == ("disk-full", mixed)


def test_a_leaving_node_is_named_as_the_reason() -> None:
    scene = Scene()
    scene.worker().closes(Closed.LEAVING)
    task = scene.task()
    scene.order()
    assert reason_of(scene, task) == (
        "leaving",
        "the 1 node that could hold it is about to leave and takes nothing new",
    )


def test_a_pool_at_its_running_limit() -> None:
    scene = Scene(Policy(pool_running_limit=1))
    scene.worker(cpus=4)
    scene.task()
    task = scene.task()
    scene.order()
    assert reason_of(scene, task) == ("pool-limit", "the pool runs 1 of the 1 tasks it may")


def test_the_short_resource_is_named_with_the_node_that_has_most_of_it() -> None:
    scene = Scene()
    scene.worker(cpus=4, memory=8 * GIGABYTE)
    scene.task(memory=5 * GIGABYTE, cap=60)
    scene.order()
    scene.worker(cpus=4, memory=3 * GIGABYTE)
    scene.task(cpus=1)
    task = scene.task(memory=8 * GIGABYTE)
    found = why(scene, task)
    assert found.sentence.startswith("no node has 8GB of memory free; the most is 3GB on node-1")
    assert (found.reason, found.suitable_nodes, found.free_nodes) == ("no-free-resources", 1, 0)


def test_the_first_task_in_the_queue_starts_when_running_work_ends() -> None:
    scene = Scene()
    scene.worker(cpus=2)
    scene.task(cpus=2, cap=60)
    scene.order()
    scene.later(seconds=10)
    found = why(scene, scene.task(cpus=1))
    assert (found.basis, found.likely_node, found.position) == ("running-tasks", 1, 1)
    assert found.estimated_start_us == 60 * SECOND_US


def test_tasks_ahead_start_at_the_first_ends_of_running_work() -> None:
    scene = Scene()
    scene.worker(cpus=2)
    scene.task(cap=60)
    scene.task(cap=90)
    scene.order()
    first, second, third = scene.tasks(3)
    assert [why(scene, task).estimated_start_us for task in (first, second, third)] == [
        60 * SECOND_US,
        90 * SECOND_US,
        120 * SECOND_US,
    ]


def test_a_queue_position_counts_own_tasks_and_other_tenants() -> None:
    scene = Scene()
    scene.worker(cpus=1)
    scene.task(tenant=3)
    scene.order()
    scene.tasks(2, tenant=2)
    scene.tasks(2, tenant=3, lane=Lane.URGENT)
    mine = scene.tasks(3, tenant=1)
    scene.core.state.tenants[1].key = scene.core.state.tenants[2].key + 1
    found = why(scene, mine[2])
    assert (found.ahead_of_mine, found.tenants_ahead, found.position) == (2, 2, 5)
    assert found.sentence.endswith("ahead of it: 2 tasks of yours and 2 other tenants")
    assert (found.estimated_start_us, found.basis) == (420 * SECOND_US, "running-tasks"), "seven caps of 60 s"
    scene.knows("work", milliseconds=30_000)
    assert why(scene, mine[2]).estimated_start_us == 300 * SECOND_US, "its own work is known to be shorter"


def test_a_tenant_above_its_share_is_the_reason() -> None:
    scene = Scene()
    scene.worker(cpus=4)
    scene.tasks(5, tenant=1)
    scene.order()
    scene.tasks(3, tenant=2)
    scene.core.state.tenants[2].key = 0
    mine = scene.task(tenant=1, priority=9)
    found = why(scene, mine)
    assert found.reason == "share"
    assert found.sentence == (
        "no node has 1 core free; none has any left, and 1 other tenant comes first, having been served less or "
        "having more urgent work"
    )


def test_a_tenant_at_its_limit_sees_used_and_limit() -> None:
    scene = Scene()
    scene.worker(cpus=8)
    scene.tenant(1, cpus=2)
    scene.task(cpus=1.5, cap=60)
    scene.order()
    task = scene.task(cpus=1)
    scene.order()
    found = why(scene, task)
    assert (found.reason, found.sentence) == (
        "tenant-limit",
        "your tenant is at its limit of cores: 1.5 of 2 in use, this task needs 1",
    )
    assert (found.estimated_start_us, found.basis) == (60 * SECOND_US, "own-tasks")
    scene.tenant(1, running=1)
    assert reason_of(scene, task)[1] == "your tenant is at its limit of running tasks: 1 of 1 in use"
    scene.tenant(1, memory=GIGABYTE)
    big = scene.task(memory=2 * GIGABYTE)
    assert reason_of(scene, big)[1] == (
        "your tenant is at its limit of memory: 0B of 1GB in use, and this task alone needs 2GB"
    )
    assert why(scene, big).estimated_start_us is None


def test_a_busy_concurrency_key_says_how_many_run() -> None:
    scene = Scene()
    scene.worker(cpus=8)
    tasks = scene.tasks(4, key="database", limit=2, cap=60)
    scene.order()
    found = why(scene, tasks[2])
    assert (found.reason, found.sentence) == ("key-busy", "its concurrency key database is busy: 2 of 2 run")
    assert (found.estimated_start_us, found.basis) == (60 * SECOND_US, "concurrency-key")


def test_the_off_peak_lane_waits_for_quieter_times() -> None:
    scene = Scene()
    scene.worker(cpus=10)
    scene.task(cpus=9.3)
    task = scene.task(cpus=0.1, lane=Lane.OFF_PEAK)
    scene.order()
    scene.order()
    assert reason_of(scene, task) == ("off-peak", "its lane waits until the pool is less than 75 % in use; it is 93 %")


def test_off_peak_work_starts_about_when_enough_of_what_runs_has_ended() -> None:
    scene = Scene()
    scene.worker(cpus=10)
    for cap in (60, 90, 3600):
        scene.task(cpus=3, cap=cap)
    scene.order()
    small, big = scene.task(cpus=1, lane=Lane.OFF_PEAK), scene.task(cpus=6, lane=Lane.OFF_PEAK)
    scene.order()
    found = [why(scene, task) for task in (small, big)]
    assert [one.reason for one in found] == ["off-peak", "off-peak"]
    assert [(one.estimated_start_us, one.basis) for one in found] == [
        (60 * SECOND_US, "load"),
        (3600 * SECOND_US, "load"),
    ]


def test_capacity_that_is_kept_for_urgent_work() -> None:
    scene = Scene()
    scene.worker(cpus=10)
    scene.task(cpus=1, lane=Lane.URGENT)
    scene.order()
    scene.core.state.urgent_seen_us = scene.now_us
    scene.tasks(8, cpus=1, cap=60)
    task = scene.task(cpus=1)
    scene.order()
    found = why(scene, task)
    assert (found.reason, found.sentence) == (
        "kept-for-urgent",
        "10 % of the pool is kept for urgent work, and only 1 core is free",
    )
    assert (found.estimated_start_us, found.basis) == (60 * SECOND_US, "load")


def test_a_tenant_at_its_urgent_share_sees_that_the_rest_is_normal() -> None:
    scene = Scene()
    scene.worker(cpus=10)
    scene.tenant(1, urgent_percent=20)
    tasks = scene.tasks(3, cpus=1, lane=Lane.URGENT)
    scene.task(cpus=64, tenant=2)
    scene.order(at_most=2)
    assert reason_of(scene, tasks[2]) == (
        "urgent-share",
        "your tenant's urgent tasks hold 20 % of the pool, 20 % at most: the rest counts as normal work",
    )


def test_a_reservation_names_its_node_and_time() -> None:
    scene = Scene()
    scene.worker(cpus=4)
    scene.task(cpus=2, cap=60)
    scene.order()
    big = scene.task(cpus=4, start_by=0, cap=60)
    scene.task(cpus=1, cap=600)  # comes after it in its tenant's order, and would delay it
    scene.later(seconds=1)
    scene.order()
    assert big.id in {kept.task for kept in scene.core.state.reservations.values()}
    found = why(scene, big)
    assert found.reason == "reserved"
    assert found.sentence == "no node has room for it now; node-1 is reserved for it, in about 59 s"
    assert (found.estimated_start_us, found.basis, found.likely_node) == (60 * SECOND_US, "reservation", 1)


def test_a_reserved_node_is_free_when_its_task_has_run() -> None:
    scene = Scene()
    scene.worker(cpus=4)
    scene.task(cpus=2, cap=60)
    scene.order()
    scene.task(cpus=4, start_by=0, cap=30)
    beside = scene.task(cpus=1, cap=600)
    scene.later(seconds=1)
    scene.order()
    found = why(scene, beside)
    assert (found.reason, found.sentence) == (
        "resources-reserved",
        "the free resources are reserved for a task that has waited longer; ahead of it: 1 task of yours",
    )
    assert (found.estimated_start_us, found.basis, found.likely_node) == (90 * SECOND_US, "after-reserved", 1)


def test_a_task_for_which_others_were_preempted() -> None:
    scene = Scene()
    scene.worker(cpus=4)
    victim = scene.task(cpus=4, cap=3600, lane=Lane.NORMAL, preemptible=True)
    scene.order()
    scene.later(seconds=10)
    urgent = scene.task(cpus=4, lane=Lane.URGENT, tenant=2, cap=60)
    scene.order()
    assert reason_of(scene, urgent) == (
        "preempting",
        "others were asked to give way to it on node-1; it starts when they have left",
    )
    assert reason_of(scene, victim)[1].endswith("it was asked to give way to more urgent work, and runs again later")


def test_a_task_that_fits_and_is_first_is_about_to_start() -> None:
    scene = Scene()
    scene.worker()
    scene.worker()
    task = scene.task()
    found = why(scene, task)
    assert (found.reason, found.sentence) == ("soon", "2 nodes have room: it is about to start")
    assert (found.estimated_start_us, found.basis, found.free_nodes) == (scene.now_us, "free-now", 2)
    second = scene.task()
    assert reason_of(scene, second) == ("in-queue", "1 task of yours is ahead of it")


def test_a_task_that_does_not_exist_is_explained_and_forgotten() -> None:
    scene = Scene()
    scene.worker(cpus=4)
    known = dict(scene.core.state.dimensions.custom)
    asked = Probe(
        task=ReadyTask(2**62, 0, 77, Lane.NORMAL, 0, 0, 60_000, 0, work_of("x")),
        shape=Shape(Resources(cpu_milli=1000, custom={"unheard-of": 3})),
    )
    found = scene.core.explain(asked, 0, NAMES)
    assert found is not None
    assert found.sentence.endswith("it asks for 3 of unheard-of, no node has any")
    assert (scene.core.state.dimensions.custom, scene.core.state.tenants) == (known, {})
    fits = scene.core.explain(Probe(task=asked.task, shape=Shape(Resources(cpu_milli=1000))), 0, NAMES)
    assert fits is not None
    assert (fits.reason, fits.likely_node) == ("soon", 1)
