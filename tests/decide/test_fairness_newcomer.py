"""A newcomer begins where the one served last *stood*, not where it stands once its charges were corrected."""

from __future__ import annotations

from rota.decide.messages import SharesKnown
from tests.decide.clockwork import SECOND_US, Clockwork
from tests.decide.scene import Scene


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
