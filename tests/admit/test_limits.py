"""A plan's limits: at once refused, whole batch or nothing, right over several nodes, and open again with time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from rota.admit.limits import Allowance, allowance_of, backlog_seconds
from rota.model.errors import Problem
from rota.model.tenant import Caller, Plan
from tests.admit.node import Node, running_node, task


async def _later(node: Node, caller: Caller, seconds: float) -> None:
    """Time passes for one tenant: the row that keeps its rate is moved back."""
    async with node.database.engine() as connection:
        await connection.execute(
            "update rate_limits set arrival = arrival - $2::interval where tenant = $1",
            caller.tenant_id, timedelta(seconds=seconds),
        )  # fmt: skip


def _with_plan(caller: Caller, **limits: int) -> Caller:
    """The same tenant after an operator changed its plan."""
    return replace(caller, plan=replace(caller.plan, **limits))


async def _burst_left(node: Node, caller: Caller) -> int:
    allowance = allowance_of(caller.plan)
    assert allowance is not None
    async with node.database.engine() as connection:
        return allowance.allowed_now(await backlog_seconds(connection, caller.tenant_id, allowance))


async def test_the_burst_is_admitted_and_the_next_task_refused_with_the_time_to_wait(node: Node) -> None:
    caller = await node.caller(tasks_per_hour=3600, burst=5)
    await node.submit(caller, *[task() for _ in range(5)])
    with pytest.raises(Problem) as refused:
        await node.submit(caller, task())
    assert (refused.value.status, refused.value.slug) == (429, "rate-limited")
    assert refused.value.extra == {"allowed_now": 0, "asked": 1}
    assert 0 < (refused.value.retry_after_seconds or 0) <= 1
    await _later(node, caller, 1)
    await node.submit(caller, task())


async def test_a_batch_is_admitted_whole_or_not_at_all(node: Node) -> None:
    caller = await node.caller(tasks_per_hour=3600, burst=5)
    await node.submit(caller, *[task() for _ in range(3)])
    with pytest.raises(Problem) as refused:
        await node.submit(caller, *[task() for _ in range(3)])
    assert refused.value.extra == {"allowed_now": 2, "asked": 3}
    await node.submit(caller, *[task() for _ in range(2)])


async def test_a_batch_larger_than_the_burst_gets_a_final_answer(node: Node) -> None:
    caller = await node.caller(tasks_per_hour=3600, burst=5)
    with pytest.raises(Problem) as refused:
        await node.submit(caller, *[task() for _ in range(6)])
    assert (refused.value.status, refused.value.slug) == (422, "batch-exceeds-plan")
    assert refused.value.retry_after_seconds is None
    await node.submit(caller, *[task() for _ in range(5)])


@pytest.mark.parametrize("limits", [{}, {"tasks_per_hour": 3600, "burst": 2}])
async def test_a_batch_larger_than_the_waiting_cap_gets_a_final_answer(node: Node, limits: dict[str, int]) -> None:
    caller = await node.caller(waiting_tasks=5, **limits)
    with pytest.raises(Problem) as refused:
        await node.submit(caller, *[task() for _ in range(6)])
    assert (refused.value.status, refused.value.slug) == (422, "batch-exceeds-plan")
    assert refused.value.retry_after_seconds is None
    assert refused.value.detail == "the batch has 6 tasks; plan unlimited allows 5 waiting and running tasks in all"


async def test_a_better_plan_counts_what_was_used_in_tasks(node: Node) -> None:
    free = await node.caller(tasks_per_hour=100, burst=50)
    await node.submit(free, *[task() for _ in range(50)])
    business = _with_plan(free, tasks_per_hour=50_000, burst=1000)
    assert await _burst_left(node, business) == pytest.approx(950, abs=1)
    await node.submit(business, *[task() for _ in range(900)])
    with pytest.raises(Problem) as refused:
        await node.submit(business, *[task() for _ in range(200)])
    assert refused.value.retry_after_seconds == pytest.approx(150 * 0.072, abs=1)
    await _later(node, business, 200 * 0.072)
    await node.submit(business, *[task() for _ in range(200)])


async def test_a_smaller_plan_counts_at_most_its_burst_as_used(node: Node) -> None:
    business = await node.caller(tasks_per_hour=50_000, burst=1000)
    await node.submit(business, *[task() for _ in range(800)])
    free = _with_plan(business, tasks_per_hour=100, burst=50)
    assert await _burst_left(node, free) == 0
    with pytest.raises(Problem) as refused:
        await node.submit(free, task())
    assert refused.value.retry_after_seconds == pytest.approx(36, abs=1)
    await _later(node, free, 36)
    await node.submit(free, task())


async def test_a_smaller_burst_at_the_same_rate_does_not_lock_its_tenant_out(node: Node) -> None:
    large = await node.caller(tasks_per_hour=100, burst=1000)
    await node.submit(large, *[task() for _ in range(1000)])
    small = _with_plan(large, tasks_per_hour=100, burst=10)
    with pytest.raises(Problem) as refused:
        await node.submit(small, task())
    assert refused.value.retry_after_seconds == pytest.approx(36, abs=1)


async def test_nodes_that_know_different_plans_for_a_moment_do_not_lock_a_tenant_out(node: Node) -> None:
    free = await node.caller(tasks_per_hour=100, burst=50)
    business = _with_plan(free, tasks_per_hour=50_000, burst=1000)
    began = time.monotonic()
    for caller in (free, business, free, business):
        await node.submit(caller, *[task() for _ in range(10)])
    left = await _burst_left(node, business)
    assert 959 <= left <= 961 + (time.monotonic() - began) * 50_000 / 3600, "and what it earned meanwhile"


async def test_a_limit_tells_how_many_are_allowed_in_which_time(node: Node) -> None:
    caller = await node.caller(tasks_per_hour=100, burst=2)
    await node.submit(caller, task(), task())
    with pytest.raises(Problem) as refused:
        await node.submit(caller, task())
    assert (refused.value.title, refused.value.detail) == (
        "Limit exceeded",
        "plan unlimited allows 100 tasks an hour, 2 of them at once; 0 would be allowed now, 1 was asked for",
    )


async def test_two_nodes_share_one_allowance(node: Node, shared: str) -> None:
    caller = await node.caller(tasks_per_hour=10, burst=7)
    async with running_node(shared) as other:
        answers = await asyncio.gather(
            *((node if n % 2 else other).submit(caller, task()) for n in range(20)), return_exceptions=True
        )
    assert sum(not isinstance(answer, Problem) for answer in answers) == 7
    assert {answer.slug for answer in answers if isinstance(answer, Problem)} == {"rate-limited"}


async def test_a_limit_counts_one_tenant_only(node: Node) -> None:
    full, free = [await node.caller(tasks_per_hour=1, burst=1) for _ in range(2)]
    await node.submit(full, task())
    with pytest.raises(Problem):
        await node.submit(full, task())
    await node.submit(free, task())


async def test_what_was_admitted_before_is_answered_again_though_the_limit_is_reached(node: Node) -> None:
    caller = await node.caller(tasks_per_hour=1, burst=2, waiting_tasks=2)
    single = await node.submit_one(caller, task(), key="one")
    batch = await node.submit(caller, task(), key="many")
    assert (await node.submit_one(caller, task(), key="one")).ids == single.ids
    assert (await node.submit(caller, task(), key="many")).ids == batch.ids
    with pytest.raises(Problem):
        await node.submit_one(caller, task(), key="new")


async def test_waiting_tasks_are_limited_and_ended_ones_do_not_count(node: Node) -> None:
    caller = await node.caller(waiting_tasks=3)
    admitted = await node.submit(caller, task(), task())
    with pytest.raises(Problem) as refused:
        await node.submit(caller, task(), task())
    assert (refused.value.status, refused.value.slug) == (429, "quota-exceeded")
    assert refused.value.extra == {"allowed_now": 1, "asked": 2}
    async with node.database.engine() as connection:
        await connection.execute("delete from queue where id = $1", admitted.ids[0])
    await node.submit(caller, task(), task())


async def test_a_refused_request_uses_up_nothing(node: Node) -> None:
    caller = await node.caller(tasks_per_hour=1, burst=1)
    with pytest.raises(Problem):
        await node.submit(caller, task(cpu=-1))
    await node.submit(caller, task())


def _plan(**limits: int | None) -> Plan:
    fields: dict[str, object] = {
        "name": "p", "tasks_per_hour": None, "burst": None, "waiting_tasks": None, "running_cpu_milli": None,
        "running_memory_bytes": None, "longest_cap_seconds": 60, "tiers": ("basic",), "weight": 1,
    }  # fmt: skip
    return Plan(**{**fields, **limits})  # type: ignore[arg-type]


def test_a_plan_without_a_rate_has_no_allowance() -> None:
    assert allowance_of(_plan(burst=5)) is None


def test_a_plan_without_a_burst_may_use_an_hour_at_once() -> None:
    assert allowance_of(_plan(tasks_per_hour=60)) == Allowance(timedelta(minutes=1), 60)


def test_the_allowance_and_the_wait_follow_from_the_backlog() -> None:
    allowance = Allowance(timedelta(seconds=10), 6)
    assert [allowance.allowed_now(seconds) for seconds in (0, 9, 10, 11, 60, 600)] == [6, 5, 5, 4, 0, 0]
    assert allowance.seconds_until(6, 0) == 0
    assert allowance.seconds_until(6, 25) == 25
    assert allowance.seconds_until(1, 55) == 5
