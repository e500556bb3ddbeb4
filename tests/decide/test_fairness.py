"""Who is next among tenants: weighted dominant-resource fairness, charged in the resource-time that was held."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.decide.messages import SharesKnown, StartRefused, TasksReady
from rota.decide.policy import Policy
from tests.decide.clockwork import SECOND_US, Clockwork
from tests.decide.scene import GIGABYTE, Scene

HOUR = 3600


def jain(amounts: list[float]) -> float:
    """1 when all have the same, 1/n when one has everything."""
    return float(sum(amounts) ** 2 / (len(amounts) * sum(amount**2 for amount in amounts)))


def _keep_busy(works: Clockwork, tenants: dict[int, dict[str, Any]]) -> None:
    """Every tenant always has more waiting than the pool could hold."""
    for tenant, each in tenants.items():
        for _ in range(20):
            works.task(tenant=tenant, **each)

    def go_on(ended: int) -> None:
        owner = works.owner(ended)
        works.task(tenant=owner, **tenants[owner])

    works.on_end = go_on


# ---- counts and lengths ---------------------------------------------------------------------------------------------


def test_one_task_does_not_wait_for_a_neighbours_thousand() -> None:
    works = Clockwork([4])
    for _ in range(1000):
        works.task(tenant=1, runs=10)
    single = works.task(tenant=2, runs=10, at=15)
    works.run(until=100)
    assert works.started[single] == 20, "the first place that was free"


def test_long_tasks_cost_more_than_short_ones() -> None:
    works = Clockwork([4])
    _keep_busy(works, {1: {"runs": 30}, 2: {"runs": 3}})
    works.run(until=600)
    assert jain([works.holds(1), works.holds(2)]) > 0.99


def test_big_tasks_cost_more_than_small_ones() -> None:
    works = Clockwork([16])
    _keep_busy(works, {1: {"runs": 5, "cpus": 4}, 2: {"runs": 5, "cpus": 1}})
    works.run(until=600)
    assert jain([works.holds(1), works.holds(2)]) > 0.99


def test_what_runs_for_long_is_charged_while_it_runs() -> None:
    scene = Scene()
    worker = scene.worker(cpus=2)
    endless = scene.task(tenant=1, cap=100_000)
    brief = scene.task(tenant=2)
    worker.expects(endless, brief)
    scene.decide()
    scene.later(seconds=1000)
    scene.decide()
    scene.ends(brief)
    scene.tasks(3, tenant=1, start_by=1)
    second = scene.tasks(3, tenant=2)
    worker.expects(second[0])
    scene.decide()


def test_a_task_that_ended_early_is_charged_what_it_held() -> None:
    """Unknown work is taken for a second; these take a tenth of one and a whole one."""
    works = Clockwork([4])
    _keep_busy(works, {1: {"runs": 0.1, "cap": 60}, 2: {"runs": 1, "cap": 60}})
    works.run(until=200)
    assert jain([works.holds(1), works.holds(2)]) > 0.99


# ---- weights --------------------------------------------------------------------------------------------------------


def test_a_weight_of_three_gets_three_times_as_much() -> None:
    works = Clockwork([8])
    works.tenant(1, weight=3)
    works.tenant(2, weight=1)
    _keep_busy(works, {1: {"runs": 4}, 2: {"runs": 4}})
    works.run(until=600)
    assert 2.9 < works.holds(1) / works.holds(2) < 3.1


def test_a_weight_that_changes_counts_from_then_on() -> None:
    works = Clockwork([8])
    _keep_busy(works, {1: {"runs": 4}, 2: {"runs": 4}})
    works.run(until=300)
    before = works.holds(1), works.holds(2)
    works.tenant(1, weight=4)
    works.run(until=600)
    after = works.holds(1) - before[0], works.holds(2) - before[1]
    assert jain(list(before)) > 0.99
    assert 3.7 < after[0] / after[1] < 4.3


# ---- the dominant resource ------------------------------------------------------------------------------------------


def test_memory_and_cpu_are_weighed_by_the_larger_share() -> None:
    works = Clockwork([16], memory=64)
    _keep_busy(works, {1: {"runs": 5, "cpus": 2, "memory": 1}, 2: {"runs": 5, "cpus": 0.5, "memory": 8}})
    works.run(until=600)
    # Two of sixteen processors weigh as much as eight of sixty-four gigabytes: both run as many tasks.
    assert jain([works.holds(1), works.holds(2)]) > 0.99
    running = [tenant.running for tenant in works.core.state.tenants.values()]
    assert abs(running[0] - running[1]) <= 1


def test_a_share_follows_the_size_of_the_pool() -> None:
    scene = Scene()
    task = scene.task(cpus=1, memory=4 * GIGABYTE)
    need = scene.core.need(task.shape)
    scene.worker(cpus=4, memory=8 * GIGABYTE)
    assert need.share_ppm == 500_000
    second = scene.worker(cpus=4, memory=24 * GIGABYTE)
    assert need.share_ppm == 125_000
    second.drains()
    assert need.share_ppm == 500_000


# ---- time -----------------------------------------------------------------------------------------------------------


def _after_a_heavy_hour(idle_seconds: float) -> int:
    """Tenant 1 held the pool for an hour, then nothing; how much of the next three minutes is tenant 2's, of 60?"""
    works = Clockwork([1])
    works.task(tenant=1, runs=HOUR)
    works.task(tenant=2, runs=1, at=HOUR + idle_seconds, start_by=0)
    works.run(until=HOUR + idle_seconds)
    for _ in range(60):
        works.task(tenant=1, runs=3)
        works.task(tenant=2, runs=3)
    works.run(until=HOUR + idle_seconds + 180)
    return sum(1 for number in works.started if number > 2 and number % 2 == 0)


def test_who_held_the_pool_a_moment_ago_comes_after_a_newcomer() -> None:
    assert _after_a_heavy_hour(0) >= 29


def test_yesterdays_heavy_user_is_not_punished_for_ever() -> None:
    assert 25 <= _after_a_heavy_hour(30 * HOUR) <= 35


def test_charges_lose_half_their_worth_every_half_life() -> None:
    scene = Scene(Policy(half_life_us=100 * SECOND_US))
    worker = scene.worker(cpus=1)
    task = scene.task(tenant=1)
    worker.expects(task)
    scene.decide()
    scene.later(seconds=10)
    scene.ends(task)
    fresh = scene.core.shares(scene.now_us)[1]
    scene.later(seconds=100)
    halved = scene.core.shares(scene.now_us)[1]
    scene.later(seconds=900)
    faint = scene.core.shares(scene.now_us)[1]
    assert 0.45 < halved / fresh < 0.55
    assert 0.0008 < faint / fresh < 0.0012


def test_shares_stay_exact_over_a_very_long_life() -> None:
    works = Clockwork([2], policy=Policy(half_life_us=10 * SECOND_US))
    _keep_busy(works, {1: {"runs": 4}, 2: {"runs": 1}})
    works.run(until=2000)  # two hundred half-lives: more than any number could double
    assert jain([works.holds(1), works.holds(2)]) > 0.98
    assert max(tenant.key for tenant in works.core.state.tenants.values()) < 1 << 120


def test_a_returning_tenant_begins_at_the_lowest_share_of_those_who_are_busy() -> None:
    """Neither does it catch up on what it did not ask for, nor does it come last."""
    works = Clockwork([4])
    _keep_busy(works, {1: {"runs": 2}, 2: {"runs": 2}})
    works.run(until=400)
    before = works.holds(1), works.holds(2)
    _keep_busy(works, {1: {"runs": 2}, 2: {"runs": 2}, 3: {"runs": 2}})
    works.run(until=700)
    gained = [works.holds(1) - before[0], works.holds(2) - before[1], works.holds(3)]
    assert jain(gained) > 0.99


# ---- failover -------------------------------------------------------------------------------------------------------


def test_shares_survive_a_failover() -> None:
    first = Scene()
    worker = first.worker(cpus=4)
    heavy = first.tasks(4, tenant=1)
    worker.expects(*heavy)
    first.decide()
    first.later(seconds=100)
    first.ends(*heavy)
    light = first.task(tenant=2)
    worker.expects(light)
    first.decide()
    first.later(seconds=1)
    first.ends(light)
    saved = first.core.shares(first.now_us)

    second = Scene()
    second.now_us = first.now_us + 10 * SECOND_US
    second.tenant(1)
    second.tenant(2)
    second.apply(SharesKnown(saved, first.now_us))
    heavy, light_ones = second.tasks(4, tenant=1), second.tasks(4, tenant=2)
    second.worker(cpus=4).expects(*light_ones)
    second.decide()
    assert heavy[0].id in second.core.state.ready


def test_what_was_saved_long_ago_has_lost_its_worth() -> None:
    scene = Scene()
    scene.now_us = 40 * HOUR * SECOND_US
    scene.tenant(1)
    scene.tenant(2)
    scene.apply(SharesKnown({1: 10**12}, 0))
    first, second = scene.tasks(2, tenant=1), scene.tasks(2, tenant=2)
    scene.worker(cpus=4).expects(first[0], second[0], first[1], second[1])
    scene.decide()


def test_a_saved_share_of_a_tenant_nobody_knows_is_no_trouble() -> None:
    scene = Scene()
    scene.apply(SharesKnown({77: 10**12}, 0))
    task = scene.task(tenant=1)
    scene.worker().expects(task)
    scene.decide()


# ---- properties -----------------------------------------------------------------------------------------------------


def _busy_tenants(
    data: st.DataObject, loads: list[dict[str, float]], nodes: list[float]
) -> tuple[Clockwork, dict[int, int]]:
    works = Clockwork(nodes, memory=32)
    weights = {tenant: data.draw(st.integers(1, 3), label="weight") for tenant in range(1, len(loads) + 1)}
    for tenant, load in enumerate(loads, 1):
        works.tenant(tenant, weight=weights[tenant])
        works.knows("usual", seconds=load["runs"], tenant=tenant)
    _keep_busy(works, {tenant: {"name": "usual", **load} for tenant, load in enumerate(loads, 1)})
    return works, weights


lengths = st.fixed_dictionaries({"runs": st.sampled_from([1, 2, 5, 9])})
pools = st.lists(st.sampled_from([2.0, 4.0]), min_size=1, max_size=3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(loads=st.lists(lengths, min_size=2, max_size=5), nodes=pools, data=st.data())
def test_the_busy_are_given_the_same_by_weight(
    loads: list[dict[str, float]], nodes: list[float], data: st.DataObject
) -> None:
    """Invariant: among tenants that always have work, what each was given by weight differs by at most one task's worth."""
    works, weights = _busy_tenants(data, loads, nodes)
    for second in range(30, 300, 30):
        works.run(until=second)
        given_by_weight = [works.was_given(tenant) / weight for tenant, weight in weights.items()]
        one = max(load["runs"] / sum(nodes) for load in loads)
        assert max(given_by_weight) - min(given_by_weight) <= 1.02 * one
    assert jain([works.holds(tenant) / weight for tenant, weight in weights.items()]) >= 0.95


shapes = st.fixed_dictionaries(
    {"runs": st.sampled_from([1, 2, 5]), "cpus": st.sampled_from([1, 2]), "memory": st.sampled_from([0, 4, 9])}
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(loads=st.lists(shapes, min_size=2, max_size=5), nodes=pools, data=st.data())
def test_the_busy_hold_about_the_same_whatever_they_ask_for(
    loads: list[dict[str, float]], nodes: list[float], data: st.DataObject
) -> None:
    """Invariant: Jain's index of resource-time by weight stays at 0.95 or more although tasks do not fit everywhere."""
    works, weights = _busy_tenants(data, loads, nodes)
    works.run(until=300)
    assert jain([works.holds(tenant) / weight for tenant, weight in weights.items()]) >= 0.95


def test_a_newcomer_does_not_wait_for_what_its_neighbour_was_charged_and_given_back() -> None:
    """Tenant 1 is always busy: long tasks, charged ahead of time, and short ones on the fourth processor."""
    works = Clockwork([4])
    for _ in range(3):
        works.task(tenant=1, runs=600, cap=3600, start_by=-1)
    for _ in range(1500):
        works.task(tenant=1, runs=1)
    for _ in range(200):
        works.task(tenant=2, runs=1, at=601)
    works.run(until=601)
    before = works.holds(1)
    works.run(until=631)
    assert works.holds(2) > 0.8 * (works.holds(1) - before)


def test_a_tenant_nobody_has_charged_does_not_go_before_all_others_after_a_failover() -> None:
    scene = Scene()
    scene.now_us = 3600 * SECOND_US
    for tenant in (1, 2, 3):
        scene.tenant(tenant)
    scene.apply(SharesKnown({1: 10**15, 2: 10**15}, scene.now_us))
    for tenant in (1, 2, 3):
        scene.tasks(30, tenant=tenant)
    scene.worker(cpus=30)
    scene.order()
    running = [tenant.running for tenant in scene.core.state.tenants.values()]
    assert running == [10, 10, 10]


def test_a_task_whose_starts_were_refused_is_charged_for_one_attempt() -> None:
    scene = Scene()
    worker = scene.worker(cpus=4)
    task = scene.task(cap=86_400)
    for _ in range(12):
        worker.expects(task)
        scene.decide()
        scene.apply(StartRefused(task.id))
        scene.apply(TasksReady([task]))
    worker.expects(task)
    scene.decide()
    scene.later(seconds=15)
    scene.decide()
    assert scene.core.state.running[task.id].charged_us <= 30 * SECOND_US
