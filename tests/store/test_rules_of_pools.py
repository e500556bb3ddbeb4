"""Operators' rules have a version: each change raises it, and a start that was planned by older rules is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from rota.store import catalogue, nodes, queue, tenants
from rota.store.catalogue import rules_version
from rota.store.database import Connection
from rota.store.queue import Fence, StartRequest
from tests.store.rows import BOOT, Rows

Change = Callable[[Rows, bool], Awaitable[object]]


async def _pause_tenant(rows: Rows, paused: bool) -> None:
    name = await rows.connection.fetchval("select name from tenants where id = $1", rows.tenant)
    await tenants.pause_tenant(rows.connection, name, paused)


async def _pause_pool(rows: Rows, paused: bool) -> None:
    await catalogue.pause_pool(rows.connection, "default", paused)


async def _drain(rows: Rows, paused: bool) -> None:
    await nodes.set_draining(rows.connection, rows.node, draining=paused)


PAUSES = pytest.mark.parametrize("pause", [_pause_tenant, _pause_pool, _drain])


@pytest.fixture
async def other(rows: Rows) -> AsyncIterator[Connection]:
    connection = await rows.another_connection()
    yield connection
    await connection.close()


async def _now(rows: Rows, fence: Fence) -> Fence:
    """The fence of a leader that has just read the version of the rules."""
    return replace(fence, rules=await rules_version(rows.connection, 1))


@PAUSES
async def test_nothing_paused_starts_and_it_goes_on_afterwards(rows: Rows, pause: Change) -> None:
    fence = await rows.lead()
    task = await rows.task()
    await pause(rows, True)
    try:
        assert await rows.start(fence, task) == [], "planned before the pause"
        assert await rows.start(await _now(rows, fence), task) == [], "its leader has not learned what the pause is of"
    finally:
        await pause(rows, False)
    assert await rows.start(fence, task) == [], "the rules have changed twice"
    assert [one.task for one in await rows.start(await _now(rows, fence), task)] == [task]


@PAUSES
async def test_a_pause_waits_for_the_starts_under_way_and_is_answered_after_them(
    rows: Rows, other: Connection, pause: Change
) -> None:
    fence = await rows.lead()
    task = await rows.task()
    under_way = other.transaction()
    await under_way.start()
    (started,) = await queue.start_attempts(other, fence, [StartRequest(task, 0, rows.node, BOOT, 30_000)])
    pausing = asyncio.create_task(_done(pause(rows, True)))
    try:
        await _until_waiting(other)
        assert not pausing.done()
        await under_way.commit()
        await pausing
        assert started.task == task
    finally:
        await pause(rows, False)


@PAUSES
async def test_a_start_that_waited_for_a_pause_is_refused_although_its_snapshot_is_older(
    rows: Rows, other: Connection, pause: Change
) -> None:
    fence = await rows.lead()
    task = await rows.task()
    waits = StartRequest(task, 0, rows.node, BOOT, 30_000)
    undecided = rows.connection.transaction()
    await undecided.start()
    await pause(rows, True)
    starting = asyncio.create_task(queue.start_attempts(other, fence, [waits]))
    await _until_waiting(rows.connection)
    await undecided.commit()
    try:
        assert await starting == []
    finally:
        await pause(rows, False)


async def _done(change: Awaitable[object]) -> None:
    await change


async def _until_waiting(connection: Connection) -> None:
    """Until another connection waits for a lock that this one holds."""
    waiting = "select count(*) from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))"
    async with asyncio.timeout(20):
        while not await connection.fetchval(waiting):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "change",
    [
        "update tenants set plan = plan where id = $1",
        "update plans set weight = weight where $1 > 0",
        "update lanes set gated = gated where $1 > 0",
        "update pools set running_tasks = running_tasks where $1 > 0",
    ],
    ids=["tenant", "plan", "lane", "pool"],
)
async def test_every_change_of_rules_raises_the_version_whoever_makes_it(rows: Rows, change: str) -> None:
    before = await rules_version(rows.connection, 1)
    await rows.connection.execute(change, rows.tenant)
    assert await rules_version(rows.connection, 1) == before + 1


async def test_heartbeats_and_registrations_do_not_change_the_rules(rows: Rows) -> None:
    before = await rules_version(rows.connection, 1)
    await nodes.touch_nodes(rows.connection, {rows.node: 0.0})
    await (await Rows.open(rows.database.url)).close()
    assert await rules_version(rows.connection, 1) == before


async def test_many_changes_at_once_do_not_block_each_other_for_good(rows: Rows) -> None:
    connections = [await rows.another_connection() for _ in range(4)]
    names = [await rows.connection.fetchval("select name from tenants where id = $1", rows.tenant)]
    before = await rules_version(rows.connection, 1)

    async def change(connection: Connection) -> None:
        for paused in (True, False) * 5:
            await tenants.pause_tenant(connection, names[0], paused)
            await catalogue.pause_pool(connection, "default", paused)

    try:
        async with asyncio.timeout(30):
            await asyncio.gather(*map(change, connections))
        assert await rules_version(rows.connection, 1) == before + 80
    finally:
        for connection in connections:
            await connection.close()
        await _pause_tenant(rows, False)
        await _pause_pool(rows, False)
