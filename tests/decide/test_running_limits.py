"""Limits of running tasks and resources: of a tenant, a key, the pool. Never exceeded, also right after a failover."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.decide.messages import AttemptEnded
from rota.decide.policy import Policy
from rota.model.queue import ReadyTask
from rota.model.task import Lane
from tests.decide.scene import GIGABYTE, Scene

LIMITED = Policy(pool_running_limit=3)


# ---- a tenant's -----------------------------------------------------------------------------------------------------


def test_a_tenant_runs_no_more_tasks_than_its_plan_allows() -> None:
    scene = Scene()
    scene.tenant(1, running=2)
    tasks = scene.tasks(5)
    worker = scene.worker(cpus=16).expects(*tasks[:2])
    scene.decide()
    scene.ends(tasks[0])
    worker.expects(tasks[2])
    scene.decide()


def test_a_tenant_at_its_limit_does_not_hold_up_others() -> None:
    scene = Scene()
    scene.tenant(1, running=1)
    capped, other = scene.tasks(3), scene.tasks(3, tenant=2)
    scene.worker(cpus=16).expects(capped[0], *other)
    scene.decide()


def test_a_limit_counts_over_all_lanes() -> None:
    scene = Scene()
    scene.tenant(1, running=2)
    normal = scene.tasks(2)
    urgent = scene.task(lane=Lane.URGENT)
    scene.worker(cpus=16).expects(urgent, normal[0])
    scene.decide()


def test_a_memory_limit_lets_tasks_without_memory_start() -> None:
    scene = Scene()
    scene.tenant(1, memory=4 * GIGABYTE)
    large = scene.tasks(2, memory=3 * GIGABYTE)
    small = scene.task(start_by=4000)
    scene.worker(cpus=16).expects(large[0], small)
    scene.decide()


def test_a_start_that_the_store_refused_no_longer_counts_towards_the_limit() -> None:
    scene = Scene()
    scene.tenant(1, running=1)
    tasks = scene.tasks(2)
    worker = scene.worker(cpus=16).expects(tasks[0])
    scene.decide()
    scene.apply(AttemptEnded(tasks[0].id, None))
    worker.expects(tasks[1])
    scene.decide()


def test_a_lowered_limit_stops_new_starts_and_no_running_task() -> None:
    scene = Scene()
    scene.tenant(1, running=4)
    tasks = scene.tasks(6)
    worker = scene.worker(cpus=16).expects(*tasks[:4])
    scene.decide()
    scene.tenant(1, running=2)
    scene.ends(tasks[0], tasks[1])
    scene.decide()
    scene.ends(tasks[2])
    worker.expects(tasks[4])
    scene.decide()


def test_a_task_with_a_reservation_obeys_its_tenants_limit() -> None:
    scene = Scene()
    blocker = scene.task(tenant=2, cpus=3, cap=1000)
    scene.worker(cpus=4).expects(blocker)
    scene.decide()
    first = scene.task(tenant=1, cpus=4, start_by=0)
    scene.task(tenant=3, cap=50_000)
    scene.decide()
    assert [place.task for place in scene.core.state.reservations.values()] == [first.id]
    scene.tenant(1, running=0)
    scene.ends(blocker)
    assert first.id not in scene.order()
    scene.tenant(1, running=1)
    scene.order()
    assert len(scene.core.state.running) == 1


# ---- a key's --------------------------------------------------------------------------------------------------------


def test_a_key_is_one_over_all_lanes_and_shapes() -> None:
    scene = Scene()
    scene.task(key="one")
    scene.task(key="one", cpus=2, lane=Lane.PERIODIC)
    urgent = scene.task(key="one", lane=Lane.URGENT)
    scene.worker(cpus=16).expects(urgent)
    scene.decide()


def test_a_key_and_a_tenants_limit_are_both_obeyed() -> None:
    scene = Scene()
    scene.tenant(1, running=3)
    keyed = scene.tasks(3, key="two", limit=2)
    others = scene.tasks(3, start_by=4000)
    scene.worker(cpus=16).expects(*keyed[:2], others[0])
    scene.decide()


def test_a_key_is_held_by_a_task_that_waits_behind_another() -> None:
    scene = Scene()
    scene.knows("quick", milliseconds=1)
    first, second = scene.task(name="quick", start_by=1), scene.task(name="quick", key="one", start_by=2)
    worker = scene.worker(cpus=1).expects(first).expects_behind(second)
    scene.decide()
    scene.task(name="quick", key="one", start_by=3)
    worker.expects()
    scene.decide()


# ---- the pool's -----------------------------------------------------------------------------------------------------


def test_a_pool_runs_no_more_tasks_than_its_operator_allows() -> None:
    scene = Scene(LIMITED)
    tasks = scene.tasks(6, tenant=1) + scene.tasks(6, tenant=2)
    scene.worker(cpus=64)
    assert len(scene.order()) == 3
    assert scene.order() == []
    scene.apply(AttemptEnded(next(iter(scene.core.state.running)), None))
    assert len(scene.order()) == 1
    assert len(scene.core.state.ready) == len(tasks) - 4


def test_a_pools_limit_counts_prefetched_tasks_too() -> None:
    scene = Scene(LIMITED)
    scene.knows("quick", milliseconds=1)
    tasks = scene.tasks(6, name="quick")
    scene.worker(cpus=2).expects(*tasks[:2]).expects_behind(tasks[2])
    scene.decide()


def test_a_pools_limit_holds_for_urgent_work_and_for_reservations() -> None:
    scene = Scene(replace(LIMITED, pool_running_limit=1))
    blocker = scene.task(cpus=3, cap=1000)
    scene.worker(cpus=4).expects(blocker)
    scene.decide()
    scene.task(lane=Lane.URGENT, tenant=2)
    scene.task(cpus=4, start_by=0)
    scene.decide()


def test_a_raised_limit_counts_from_the_next_plan_on() -> None:
    scene = Scene(LIMITED)
    tasks = scene.tasks(6)
    worker = scene.worker(cpus=64).expects(*tasks[:3])
    scene.decide()
    scene.policy(replace(LIMITED, pool_running_limit=5))
    worker.expects(*tasks[3:5])
    scene.decide()
    scene.policy(Policy())
    worker.expects(tasks[5])
    scene.decide()


# ---- after a failover -----------------------------------------------------------------------------------------------


def test_a_new_leader_keeps_every_limit_from_its_first_plan_on() -> None:
    scene = Scene(replace(LIMITED, pool_running_limit=5))
    scene.tenant(1, running=2)
    scene.tenant(2, cpus=3)
    worker = scene.worker(cpus=64)
    held = [*scene.tasks(1, tenant=1), *scene.tasks(1, tenant=2, cpus=2), *scene.tasks(1, tenant=3, key="one")]
    for task in held:
        scene.holds(worker, task)
    capped = scene.tasks(3, tenant=1)
    bounded = scene.tasks(3, tenant=2, cpus=1)
    scene.tasks(3, tenant=3, key="one")
    worker.expects(capped[0], bounded[0])
    scene.decide()


def test_attempts_on_a_worker_that_is_not_back_yet_count_all_the_same() -> None:
    scene = Scene(LIMITED)
    scene.tenant(1, running=2)
    gone = scene.worker(cpus=4)
    gone.leaves()
    held = scene.tasks(2, tenant=1)
    for task in held:
        scene.holds(gone, task)
    waiting = [*scene.tasks(2, tenant=1), *scene.tasks(2, tenant=2)]
    scene.worker(cpus=64).expects(waiting[2])
    scene.decide()


events = st.lists(
    st.one_of(
        st.tuples(st.just("ready"), st.integers(1, 3), st.sampled_from([None, "a", "b"]), st.integers(0, 3)),
        st.tuples(st.just("held"), st.integers(1, 3), st.sampled_from([None, "a", "b"]), st.integers(0, 3)),
        st.tuples(st.just("end"), st.integers(0, 5), st.none(), st.just(0)),
        st.tuples(st.just("plan"), st.integers(1, 9), st.none(), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(history=events, pool=st.sampled_from([None, 4, 9]))
def test_no_plan_ever_exceeds_a_limit(history: list[tuple[str, int, str | None, int]], pool: int | None) -> None:
    """Invariant: a plan starts nothing where a cap is reached, even if what an earlier leader left is beyond it."""
    scene = Scene(Policy(pool_running_limit=pool))
    scene.tenant(1, running=2)
    scene.tenant(2, cpus=3)
    workers = [scene.worker(cpus=8), scene.worker(cpus=8)]
    owners: dict[int, ReadyTask] = {}
    for what, number, key, lane in history:
        running = scene.core.state.running
        if what in ("ready", "held"):
            task = scene.task(tenant=number, key=key, limit=2, lane=lane)
            owners[task.id] = task
            if what == "held":
                scene.holds(workers[number % 2], task)
        elif what == "end" and running:
            scene.apply(AttemptEnded(list(running)[number % len(running)], None))
        elif what == "plan":
            before = set(running)
            scene.order(at_most=number)
            _obeys(scene, owners, before, pool)


def _obeys(scene: Scene, owners: dict[int, ReadyTask], before: set[int], pool: int | None) -> None:
    running = [owners[number] for number in scene.core.state.running]
    started = [task for task in running if task.id not in before]
    assert not started or pool is None or len(running) <= pool
    for tenant, most in ((1, 2), (2, 3)):
        own = [task for task in running if task.tenant == tenant]
        assert len(own) <= most or all(task.id in before for task in own), f"tenant {tenant} runs {len(own)}"
    for task in started:
        if task.concurrency_key is not None:
            same = [o for o in running if (o.tenant, o.concurrency_key) == (task.tenant, task.concurrency_key)]
            assert len(same) <= 2, f"key {task.concurrency_key} of tenant {task.tenant} is held by {len(same)}"


def test_a_task_with_a_reservation_waits_while_the_pool_is_at_its_running_limit() -> None:
    scene = Scene()
    blocker = scene.task(tenant=2, cpus=3, cap=1000)
    worker = scene.worker(cpus=4).expects(blocker)
    scene.decide()
    late = scene.task(tenant=1, cpus=4, start_by=0)
    scene.decide()
    elsewhere = scene.worker(cpus=1, labels={"zone": "b"})
    other = scene.task(tenant=3, require={"zone": "b"})
    elsewhere.expects(other)
    scene.decide()
    scene.policy(Policy(pool_running_limit=1))
    scene.ends(blocker)
    scene.decide()
    scene.ends(other)
    worker.expects(late)
    scene.decide()


def test_a_node_reserved_for_a_tenant_at_its_limit_is_free_for_others() -> None:
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


def test_a_node_reserved_for_a_task_whose_key_is_full_is_free_for_others() -> None:
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


def test_a_task_with_a_concurrency_key_starts_by_its_own_limit_whatever_others_gave() -> None:
    scene = Scene()
    scene.worker(cpus=8)
    wide = scene.tasks(4, key="database", limit=3)
    narrow = scene.task(key="database", limit=2, priority=-1)
    assert scene.order() == [task.id for task in wide[:3]]
    crowded = scene.core.explain(narrow.id, scene.now_us, {})
    assert crowded is not None
    assert crowded.sentence == "its concurrency key database is busy: 3 run, its own limit is 2"
    scene.ends(wide[0], wide[1])
    assert scene.order() == [wide[3].id], "two run then, so the narrow one still waits"
    explained = scene.core.explain(narrow.id, scene.now_us, {})
    assert explained is not None
    assert explained.sentence == "its concurrency key database is busy: 2 of 2 run"
    scene.ends(wide[2])
    assert scene.order() == [narrow.id]
