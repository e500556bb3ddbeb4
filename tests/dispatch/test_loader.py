"""Loading: memory holds the bounded front of each tenant's queue; the rest is read as the front starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import asyncpg
import pytest

from rota.decide.messages import TasksGone
from rota.dispatch.loader import Loader
from rota.store import queue
from rota.store.database import Connection
from rota.store.queue import Wanted
from rota.store.statements import sql
from tests.dispatch.leading import Leading
from tests.harness.lanes import RANKS
from tests.store.rows import add_tenant

SHARE = 200  # the smallest a tenant gets


async def _many(leading: Leading, count: int, tenant: int | None = None) -> list[int]:
    """Ready tasks, quickly: copies of one."""
    first = await leading.rows.task(tenant=tenant)
    rows = await leading.rows.connection.fetch(
        """with ids as (select generate_series(f, f + $2::int - 2) as new from take_task_ids($2::int) f)
            insert into queue (id, pool, tenant, lane, urgency, start_by, cap_ms, shape, work, state, attempts)
            select new, pool, tenant, lane, urgency, start_by + (new - $1) * interval '1 millisecond', cap_ms, shape,
                work, state, attempts from queue, ids where queue.id = $1 returning id""",
        first,
        count,
    )
    return [first, *sorted(row["id"] for row in rows)]


def _ready(leading: Leading, tenant: int) -> list[int]:
    return sorted(task.id for task in leading.pool.core.state.ready.values() if task.tenant == tenant)


async def test_only_the_front_of_a_long_queue_is_in_memory(leading: Leading) -> None:
    tasks = await _many(leading, 1000)
    loader = Loader(leading.pool.core, 1, ready_limit=SHARE)
    await loader.poll(leading.rows.connection, 0)
    assert _ready(leading, leading.rows.tenant) == tasks[:SHARE]
    assert not loader.wants()


async def test_the_next_part_is_read_when_the_first_runs_low(leading: Leading) -> None:
    tasks = await _many(leading, 500)
    loader = Loader(leading.pool.core, 1, ready_limit=SHARE)
    await loader.poll(leading.rows.connection, 0)
    leading.pool.core.apply(TasksGone(tasks[:150]), 0)
    assert loader.wants()
    await loader.fill(leading.rows.connection, 0)
    assert _ready(leading, leading.rows.tenant) == tasks[150:350]


async def test_everything_passes_through_memory_once_in_the_end(leading: Leading) -> None:
    tasks = await _many(leading, 900)
    loader = Loader(leading.pool.core, 1, ready_limit=SHARE)
    await loader.poll(leading.rows.connection, 0)
    seen: list[int] = []
    for _ in range(20):
        part = _ready(leading, leading.rows.tenant)
        assert len(part) <= SHARE
        seen += part
        leading.pool.core.apply(TasksGone(part), 0)
        if not loader.wants():
            break
        await loader.fill(leading.rows.connection, 0)
    assert seen == tasks


async def test_a_new_task_in_front_of_the_rest_comes_in_though_memory_is_full(leading: Leading) -> None:
    await _many(leading, 500)
    loader = Loader(leading.pool.core, 1, ready_limit=SHARE)
    await loader.poll(leading.rows.connection, 0)
    urgent = await leading.rows.task(priority=100)
    (arrived,) = await queue.load_ready(
        leading.rows.connection, 1, [Wanted(leading.rows.tenant, (-1, 0, 0, 0, 0), 1)], RANKS
    )
    loader.add([arrived], 0)
    assert urgent in leading.pool.core.state.ready


async def test_a_new_task_behind_a_full_memory_stays_in_the_database_until_its_turn(leading: Leading) -> None:
    tasks = await _many(leading, 500)
    loader = Loader(leading.pool.core, 1, ready_limit=SHARE)
    await loader.poll(leading.rows.connection, 0)
    last = await leading.rows.task(priority=-100)
    row = (
        await queue.load_ready(leading.rows.connection, 1, [Wanted(leading.rows.tenant, (2, 50, 0, 0, 0), 1)], RANKS)
    )[0]
    loader.add([row], 0)
    assert last not in leading.pool.core.state.ready
    leading.pool.core.apply(TasksGone(tasks), 0)
    await leading.rows.connection.execute("delete from queue where id = any($1)", tasks)
    await loader.fill(leading.rows.connection, 0)
    assert _ready(leading, leading.rows.tenant) == [last]


async def test_a_hint_from_another_node_makes_the_leader_read_again(leading: Leading) -> None:
    loader = Loader(leading.pool.core, 1, ready_limit=SHARE)
    first = await leading.rows.task()
    await loader.poll(leading.rows.connection, 0)
    assert not loader.wants()
    second = await leading.rows.task(priority=5)
    loader.hinted(leading.rows.tenant, (1, -5, 0, 0, second))
    assert loader.wants()
    await loader.fill(leading.rows.connection, 0)
    assert _ready(leading, leading.rows.tenant) == [first, second]


class _Meanwhile:
    """A connection on which something happens between the reading of ready tasks and its answer."""

    def __init__(self, connection: Connection, event: Callable[[], Awaitable[None]]) -> None:
        self._connection = connection
        self._event = event

    async def fetch(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        rows = await self._connection.fetch(query, *arguments)
        if query == sql("queue/load_ready"):
            await self._event()
        return rows


@pytest.mark.parametrize("how", ["arrived", "hinted"])
async def test_what_comes_while_the_queue_is_read_is_read_next(leading: Leading, how: str) -> None:
    loader = Loader(leading.pool.core, 1, ready_limit=SHARE)
    first = await leading.rows.task()
    tenant = leading.rows.tenant
    came: list[int] = []

    async def come() -> None:
        if not came:
            came.append(await leading.rows.task())
            task = (await queue.load_ready(leading.rows.connection, 1, [Wanted(tenant, (-1, 0, 0, 0, 0), 9)], RANKS))[
                -1
            ]
            if how == "arrived":
                loader.add([task], 0)
            else:
                loader.hinted(tenant, task.order)

    connection = cast(Connection, _Meanwhile(leading.rows.connection, come))
    await loader.poll(connection, 0)
    assert loader.wants()
    await loader.fill(connection, 0)
    assert _ready(leading, tenant) == [first, *came]
    assert not loader.wants()


async def test_tenants_share_memory(leading: Leading) -> None:
    other = await add_tenant(leading.rows.connection)
    await _many(leading, 600)
    await _many(leading, 600, tenant=other)
    loader = Loader(leading.pool.core, 1, ready_limit=2 * SHARE)
    await loader.poll(leading.rows.connection, 0)
    assert [len(_ready(leading, tenant)) for tenant in (leading.rows.tenant, other)] == [SHARE, SHARE]


async def test_what_comes_due_is_taken_in_and_the_next_timer_is_known(leading: Leading) -> None:
    loader = Loader(leading.pool.core, 1, ready_limit=SHARE)
    due, later = await leading.rows.task(wait=5), await leading.rows.task(wait=600)
    await leading.rows.make_due(due)
    await loader.poll(leading.rows.connection, 0)
    assert _ready(leading, leading.rows.tenant) == [due]
    assert loader.next_timer_at is not None
    assert later not in leading.pool.core.state.ready
