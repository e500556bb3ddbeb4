"""What a leader reads: each tenant's next tasks in its own order, what has come due, nothing it may not start."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.model.queue import BEFORE_ALL
from rota.model.task import Lane
from rota.store import queue
from rota.store.cancel_and_rerun import cancel_tasks
from rota.store.queue import Wanted
from tests.harness.lanes import RANKS
from tests.store.rows import Rows, add_tenant

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


async def test_ready_tasks_come_in_the_tenants_order_page_by_page(rows: Rows) -> None:
    normal = await rows.task()
    low = await rows.task(priority=-1)
    high = await rows.task(priority=5)
    urgent = await rows.task(lane=Lane.URGENT)
    first = await queue.load_ready(rows.connection, 1, [Wanted(rows.tenant, BEFORE_ALL, 3)], RANKS)
    rest = await queue.load_ready(rows.connection, 1, [Wanted(rows.tenant, (2, *first[-1].order[1:]), 3)], RANKS)
    assert [task.id for task in first] == [urgent, high, normal]
    assert [task.id for task in rest] == [low]


async def test_lanes_that_are_served_together_are_read_together(rows: Rows) -> None:
    low = await rows.task(priority=-5, lane=Lane.NORMAL)
    periodic = await rows.task(lane=Lane.PERIODIC)
    late = await rows.task(priority=9, lane=Lane.OFF_PEAK)
    high = await rows.task(priority=5, lane=Lane.NORMAL)
    urgent = await rows.task(lane=Lane.URGENT)
    seen: list[int] = []
    cursor = BEFORE_ALL
    while page := await queue.load_ready(rows.connection, 1, [Wanted(rows.tenant, cursor, 2)], RANKS):
        seen += [task.id for task in page]
        cursor = (RANKS[page[-1].lane], *page[-1].order[1:])
    assert seen == [urgent, high, periodic, low, late]


async def test_only_ready_tasks_are_loaded(rows: Rows) -> None:
    fence = await rows.lead()
    ready = await rows.task()
    await rows.running(fence)
    await rows.task(wait=60)
    await rows.task(after=(ready,))
    loaded = await queue.load_ready(rows.connection, 1, [Wanted(rows.tenant, BEFORE_ALL, 10)], RANKS)
    assert [task.id for task in loaded] == [ready]


async def test_each_tenant_gets_its_own_page(rows: Rows) -> None:
    other = await add_tenant(rows.connection)
    ours = [await rows.task() for _ in range(3)]
    theirs = [await rows.task(tenant=other) for _ in range(3)]
    wanted = [Wanted(rows.tenant, BEFORE_ALL, 1), Wanted(other, BEFORE_ALL, 2)]
    loaded = await queue.load_ready(rows.connection, 1, wanted, RANKS)
    assert [task.id for task in loaded] == [ours[0], *theirs[:2]]


async def test_a_task_with_a_tolerance_keeps_its_lane_until_its_time_comes_near(rows: Rows) -> None:
    task = await rows.task(tolerance=600, lane=Lane.OFF_PEAK)
    (loaded,) = await queue.load_ready(rows.connection, 1, [Wanted(rows.tenant, BEFORE_ALL, 10)], RANKS)
    assert (loaded.id, loaded.lane) == (task, Lane.OFF_PEAK)
    assert await queue.load_due(rows.connection, 1, [rows.tenant], [LONG_AGO], 10) == []
    await rows.make_due(task)
    ((due, _),) = await queue.load_due(rows.connection, 1, [rows.tenant], [LONG_AGO], 10)
    assert (due.id, due.lane) == (task, Lane.URGENT)


async def test_a_delayed_task_comes_due_in_its_own_lane_and_can_be_started_as_it_is(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.task(wait=600)
    assert await rows.start(fence, task) == []
    await rows.make_due(task)
    ((due, _),) = await queue.load_due(rows.connection, 1, [rows.tenant], [LONG_AGO], 10)
    assert (due.id, due.lane) == (task, Lane.NORMAL)
    assert [started.task for started in await rows.start(fence, task)] == [task]


async def test_what_is_due_is_bounded_per_tenant(rows: Rows) -> None:
    other = await add_tenant(rows.connection)
    for tenant in (rows.tenant, rows.tenant, rows.tenant, other):
        await rows.make_due(await rows.task(tenant=tenant, wait=600))
    due = await queue.load_due(rows.connection, 1, [rows.tenant, other], [LONG_AGO] * 2, 2)
    assert [task.tenant for task, _ in due] == [rows.tenant, rows.tenant, other]


async def test_the_next_timer_is_the_nearest_one_to_come(rows: Rows) -> None:
    await rows.make_due(await rows.task(wait=5))
    await rows.task(wait=600)
    await rows.task(wait=60)
    timers = await queue.next_timers(rows.connection, 1, [rows.tenant])
    assert 50 < timers[rows.tenant] <= 60


async def test_a_stale_version_does_not_start_and_a_start_happens_once(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.task()
    request = queue.StartRequest(task, 0, rows.node, 77, 30_000)
    stale = queue.StartRequest(task, 5, rows.node, 77, 30_000)
    assert await queue.start_attempts(rows.connection, fence, [stale]) == []
    assert [s.attempt for s in await queue.start_attempts(rows.connection, fence, [request])] == [1]
    assert await queue.start_attempts(rows.connection, fence, [request]) == []


async def test_after_a_lost_reply_the_rows_say_what_was_started(rows: Rows) -> None:
    fence = await rows.lead()
    started, untouched = await rows.task(), await rows.task()
    requests = [queue.StartRequest(task, 0, rows.node, 77, 30_000) for task in (started, untouched)]
    answer = await queue.start_attempts(rows.connection, fence, requests[:1])
    assert await queue.find_started(rows.connection, fence, requests) == answer


async def test_after_a_lost_reply_a_start_is_found_although_its_owner_cancelled_it_meanwhile(rows: Rows) -> None:
    fence = await rows.lead()
    request = queue.StartRequest(await rows.task(), 0, rows.node, 77, 30_000)
    answer = await queue.start_attempts(rows.connection, fence, [request])
    await cancel_tasks(rows.connection, [request.task], rows.tenant, "changed my mind")
    assert await queue.find_started(rows.connection, fence, [request]) == answer


async def test_a_new_leader_finds_everything_that_runs(rows: Rows) -> None:
    fence = await rows.lead()
    running = await rows.running(fence, key="k")
    await rows.task()
    held = [one for one in await queue.load_running(rows.connection, 1) if one.tenant == rows.tenant]
    assert [(one.task, one.attempt, one.node, one.boot, one.concurrency_key) for one in held] == [
        (running, 1, rows.node, 77, "k")
    ]
