"""Whatever a task waits for: it has an estimated start, or a sentence why nobody can say when it starts.

The reasons come from the code: one that is in neither list below fails a test. What only the database knows is asked
for over HTTP in `tests/api/test_why.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rota.decide.explain import Explanation, Probe
from rota.decide.messages import KeysCooled
from rota.decide.policy import Policy
from rota.decide.reason import NOT_WAITING, Reason
from rota.model.node import Closed
from rota.model.queue import ReadyTask
from rota.model.resources import Resources, Shape
from rota.model.task import Lane
from tests.decide.scene import Scene, work_of

Found = Explanation | None
FROM_THE_DATABASE = {
    Reason.ENDED,
    Reason.LEADER_UNREACHABLE,
    Reason.BACKING_OFF,
    Reason.PAUSED,
    Reason.HELD,
}


def why(scene: Scene, asked: ReadyTask | Probe) -> Explanation:
    found = scene.core.explain(asked if isinstance(asked, Probe) else asked.id, scene.now_us, {})
    assert found is not None
    return found


def probe(after: tuple[int, ...] = (), not_before_us: int = 0, in_database: int | None = None) -> Probe:
    task = ReadyTask(2**62, 0, 1, Lane.NORMAL, 0, 0, 60_000, 0, work_of("work"))
    shape = Shape(Resources(cpu_milli=1000))
    return Probe(task=task, shape=shape, after=after, not_before_us=not_before_us, in_database=in_database)


def running() -> Explanation:
    scene = Scene()
    task = scene.task()
    scene.worker()
    scene.order()
    return why(scene, task)


def prefetched() -> Explanation:
    scene = Scene()
    scene.knows("short", milliseconds=5)
    tasks = scene.tasks(2, name="short")
    scene.worker(cpus=1)
    scene.order()
    return why(scene, tasks[1])


def of_a_pool(policy: Policy, *, worker: bool = True, **task: object) -> Explanation:
    scene = Scene(policy)
    if worker:
        scene.worker(cpus=4, labels={"zone": "a"})
    found = scene.task(**task)  # type: ignore[arg-type]
    scene.order()
    return why(scene, found)


def tenant_paused() -> Explanation:
    scene = Scene()
    scene.worker()
    scene.tenant(1, paused=True)
    return why(scene, scene.task())


def closed(reason: Closed) -> Explanation:
    scene = Scene()
    scene.worker().closes(reason)
    return why(scene, scene.task())


def pool_limit() -> Explanation:
    scene = Scene(Policy(pool_running_limit=1))
    scene.worker()
    tasks = scene.tasks(2)
    scene.order()
    return why(scene, tasks[1])


def preempting() -> Explanation:
    scene = Scene()
    scene.worker(cpus=4)
    scene.task(cpus=4, cap=3600, preemptible=True)
    scene.order()
    scene.later(seconds=10)
    urgent = scene.task(cpus=4, lane=Lane.URGENT, tenant=2)
    scene.order()
    return why(scene, urgent)


def beside_a_reservation(*, holder: bool) -> Explanation:
    scene = Scene()
    scene.worker(cpus=4)
    scene.task(cpus=2, cap=60)
    scene.order()
    big = scene.task(cpus=4, start_by=0, cap=60)
    small = scene.task(cpus=1, cap=600)
    scene.later(seconds=1)
    scene.order()
    return why(scene, big if holder else small)


def key_busy() -> Explanation:
    scene = Scene()
    scene.worker()
    tasks = scene.tasks(2, key="database")
    scene.order()
    return why(scene, tasks[1])


def key_cooled() -> Explanation:
    scene = Scene()
    scene.worker()
    task = scene.task(key="database")
    scene.apply(KeysCooled({(1, "database"): 5_000_000}))
    scene.order()
    return why(scene, task)


def tenant_limit() -> Explanation:
    scene = Scene()
    scene.worker()
    scene.tenant(1, running=1)
    tasks = scene.tasks(2)
    scene.order()
    return why(scene, tasks[1])


def off_peak() -> Explanation:
    scene = Scene()
    scene.worker(cpus=10)
    scene.task(cpus=9)
    task = scene.task(lane=Lane.OFF_PEAK)
    scene.order()
    return why(scene, task)


def kept_for_urgent() -> Explanation:
    scene = Scene()
    scene.worker(cpus=10)
    scene.task(lane=Lane.URGENT)
    scene.order()
    scene.core.state.urgent_seen_us = scene.now_us
    scene.tasks(8)
    task = scene.task()
    scene.order()
    return why(scene, task)


def urgent_share() -> Explanation:
    scene = Scene()
    scene.worker(cpus=10)
    scene.tenant(1, urgent_percent=20)
    tasks = scene.tasks(3, lane=Lane.URGENT)
    scene.task(cpus=64, tenant=2)
    scene.order(at_most=2)
    return why(scene, tasks[2])


def share() -> Explanation:
    scene = Scene()
    scene.worker(cpus=4)
    scene.tasks(5, tenant=1)
    scene.order()
    scene.tasks(3, tenant=2)
    scene.core.state.tenants[2].key = 0
    return why(scene, scene.task(tenant=1))


def full() -> Scene:
    scene = Scene()
    scene.worker(cpus=1)
    scene.task()
    scene.order()
    return scene


def no_room() -> Explanation:
    scene = full()
    return why(scene, scene.task())


def queued(position: int) -> Explanation:
    scene = Scene()
    scene.worker()
    return why(scene, scene.tasks(2)[position])


SITUATIONS: dict[Reason, Callable[[], Explanation]] = {
    Reason.RUNNING: running,
    Reason.PREFETCHED: prefetched,
    Reason.POOL_PAUSED: lambda: of_a_pool(Policy(paused=True)),
    Reason.TENANT_PAUSED: tenant_paused,
    Reason.NO_NODES: lambda: of_a_pool(Policy(), worker=False),
    Reason.NO_SUCH_LABEL: lambda: of_a_pool(Policy(), require={"zone": "b"}),
    Reason.UNPLACEABLE: lambda: of_a_pool(Policy(), cpus=64),
    Reason.DISK_FULL: lambda: closed(Closed.FULL),
    Reason.DRAINING: lambda: closed(Closed.DRAINING),
    Reason.LEAVING: lambda: closed(Closed.LEAVING),
    Reason.POOL_LIMIT: pool_limit,
    Reason.PREEMPTING: preempting,
    Reason.RESERVED: lambda: beside_a_reservation(holder=True),
    Reason.RESOURCES_RESERVED: lambda: beside_a_reservation(holder=False),
    Reason.KEY_COOLED: key_cooled,
    Reason.KEY_BUSY: key_busy,
    Reason.TENANT_LIMIT: tenant_limit,
    Reason.OFF_PEAK: off_peak,
    Reason.KEPT_FOR_URGENT: kept_for_urgent,
    Reason.URGENT_SHARE: urgent_share,
    Reason.SHARE: share,
    Reason.NO_FREE_RESOURCES: no_room,
    Reason.IN_QUEUE: lambda: queued(1),
    Reason.SOON: lambda: queued(0),
    Reason.IN_DATABASE: lambda: why(full(), probe(in_database=5_000)),
    Reason.BLOCKED: lambda: why(full(), probe(after=(1,))),
    Reason.DELAYED: lambda: why(full(), probe(not_before_us=10_000_000)),
}


def test_every_reason_of_the_code_has_a_situation() -> None:
    elsewhere = FROM_THE_DATABASE | {Reason.FROZEN}  # tests/dispatch/test_frozen_attempts.py
    assert SITUATIONS.keys() | elsewhere == set(Reason)
    assert not SITUATIONS.keys() & elsewhere


@pytest.mark.parametrize("reason", list(SITUATIONS))
def test_a_task_that_waits_has_an_estimate_or_a_sentence_why_it_has_none(reason: Reason) -> None:
    found = SITUATIONS[reason]()
    assert found.reason is reason
    if reason not in NOT_WAITING:
        assert (found.estimated_start_us is None) == bool(found.start_unknown)
        assert found.estimated_start_us is None or found.basis != "unknown"


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in NOT_WAITING])
def test_no_explanation_of_a_waiting_task_can_be_made_without_either(reason: Reason) -> None:
    with pytest.raises(AssertionError):
        Explanation(reason=reason, sentence="it waits")


def test_nothing_is_told_from_a_cap_that_nobody_gave() -> None:
    """The longest cap of the plan is a bound, and so is what it was when the tasks were admitted."""
    for change in ((), (60 * 86_400,)):
        scene = Scene()
        scene.worker(cpus=4)
        scene.plan_bound(1, seconds=30 * 86_400)
        scene.task(cpus=2, cap=30 * 86_400)
        scene.order()
        for seconds in change:
            scene.plan_bound(1, seconds=seconds)
        scene.later(seconds=4)
        first, second = scene.tasks(2, cpus=4, cap=30 * 86_400)
        found = why(scene, first)
        assert (found.estimated_start_us, found.run_times) == (8_000_000, "age")
        assert why(scene, second).estimated_start_us is None
        assert why(scene, second).start_unknown.startswith("nothing is known of how long tasks before it run")
        scene.knows("work", milliseconds=10_000)
        found = why(scene, second)
        assert (found.estimated_start_us, found.run_times) == (20_000_000, "history")


def test_the_plan_of_a_tenant_that_is_new_to_the_core_bounds_its_caps_too() -> None:
    scene = Scene()
    scene.worker(cpus=1)
    month_us = 30 * 86_400_000_000
    first, second = (
        Probe(
            task=ReadyTask(2**62 + n, 0, 77, Lane.NORMAL, 0, 0, month_us // 1000, 0, work_of("x")),
            shape=Shape(Resources(cpu_milli=1000)),
            longest_cap_us=month_us,
        )
        for n in range(2)
    )
    found = scene.core.forecast(0, [first, second])
    assert list(found.starts) == [first.task.id]
    assert list(found.unknown) == [first.task.id]


def start_behind_a_cap_of_200_seconds(*names: str) -> tuple[float, str | None]:
    """Estimated after tasks of these names, which ran a quarter of their caps."""
    scene = Scene()
    scene.worker(cpus=1)
    for name in names:
        ended = scene.task(name=name, cap=100)
        scene.order()
        scene.ends(ended, milliseconds=25_000)
    scene.task(name="unknown", cap=200)
    scene.order()
    found = why(scene, scene.task(name="behind"))
    assert found.estimated_start_us is not None
    return (found.estimated_start_us - scene.now_us) / 1_000_000, found.run_times


def test_given_caps_are_corrected_by_what_many_names_of_the_tenant_use_of_them() -> None:
    assert start_behind_a_cap_of_200_seconds() == (200.0, "cap")
    one, _ = start_behind_a_cap_of_200_seconds("a")
    assert 180 < one < 200, "one name says little about others"
    assert start_behind_a_cap_of_200_seconds(*["a"] * 40) == (one, "cap"), "however often it ran"
    many, _ = start_behind_a_cap_of_200_seconds(*map(str, range(60)))
    assert 50 <= many < 60


def test_an_elastic_pool_has_to_grow_by_a_node_of_such_a_size() -> None:
    large = of_a_pool(Policy(elastic=True), cpus=64)
    assert large.sentence == (
        "no present node could hold it: it asks for 64 cores, the most any node has is 4; "
        "the pool has to grow by a node with at least 64 cores"
    )
    labelled = of_a_pool(Policy(elastic=True), require={"zone": "b"})
    assert labelled.sentence.endswith("zone=b; the pool has to grow by such a node")
    assert labelled.start_unknown == "it starts after a node with these labels has joined"


def test_an_urgent_task_that_alone_needs_more_than_the_share_hears_exactly_that() -> None:
    scene = Scene()
    scene.worker(cpus=4)
    scene.tenant(1, urgent_percent=50)
    scene.task(cpus=1, tenant=2)
    scene.order()
    scene.task(cpus=4, tenant=2)
    found = why(scene, scene.task(cpus=4, lane=Lane.URGENT))
    assert found.reason is Reason.URGENT_SHARE
    assert found.sentence.startswith(
        "this task alone needs 100 % of the pool, and your tenant's urgent tasks may hold 50 % while others wait: "
        "it counts as normal work"
    )


def test_obstacles_are_said_of_blocked_and_delayed_tasks_too() -> None:
    for asked in (probe(after=(1,)), probe(not_before_us=10_000_000), probe(in_database=7)):
        scene = full()
        scene.tenant(1, paused=True)
        assert why(scene, asked).reason is Reason.TENANT_PAUSED
        scene = Scene()
        assert why(scene, asked).reason is Reason.NO_NODES


def test_a_forecast_changes_nothing_and_is_the_same_twice() -> None:
    scene = full()
    scene.tasks(20, cpus=1)
    before = scene.core.state.digest()
    first, second = scene.core.forecast(scene.now_us), scene.core.forecast(scene.now_us)
    assert (first.starts, first.ends) == (second.starts, second.ends)
    assert scene.core.state.digest() == before
    scene.core.state.check()


def test_a_chain_of_tasks_is_forecast_one_after_the_other() -> None:
    scene = full()
    first, second = probe(after=(1,)), probe(after=(2**62,))
    second = replace(second, task=replace(second.task, id=2**62 + 1))
    found = scene.core.forecast(scene.now_us, [first, second])
    assert [found.starts[one.task.id].at_us for one in (first, second)] == [60_000_000, 120_000_000]
