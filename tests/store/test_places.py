"""Places of keys counted across pools: taken with the start, given back with the settlement, never one too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from rota.model.attempt import Outcome
from rota.settle.settlement import settle
from rota.store import cancel_and_rerun, concurrency_keys
from rota.store.cleaning import forget_concurrency_keys
from rota.store.concurrency_keys import PlaceRequest
from rota.store.database import Connection
from rota.store.queue import Fence, StartRequest
from tests.harness.postgres import TestPostgres
from tests.store.rows import BOOT, Rows, until_blocked

KEY = "upstream"


@dataclass
class Pools:
    """Two pools with a leader each, and one tenant with tasks in both."""

    rows: Rows
    url: str
    one: Fence
    two: Fence

    async def tasks(self, fence: Fence, count: int, *, limit: int = 1) -> list[int]:
        return [
            await self.rows.task(pool=fence.pool, key=KEY, limit=limit, everywhere=True, attempts=2)
            for _ in range(count)
        ]

    async def requests(self, tasks: list[int]) -> list[PlaceRequest]:
        return [
            PlaceRequest(
                StartRequest(row["id"], row["version"], self.rows.node, BOOT, 30_000), row["tenant"],
                row["concurrency_key"], row["concurrency_limit"],
            )
            for row in [await self.rows.queued(task) for task in tasks]
        ]  # fmt: skip

    async def start(self, fence: Fence, *tasks: int, connection: Connection | None = None) -> list[int]:
        """Which of them found a place."""
        requests = await self.requests(list(tasks))
        started, busy = await concurrency_keys.start_with_places(connection or self.rows.connection, fence, requests)
        self.rows.attempts.update({row.task: row.attempt for row in started})
        assert busy.isdisjoint(row.task for row in started)
        return sorted(row.task for row in started)

    async def ends(self, fence: Fence, task: int, outcome: Outcome = Outcome.OK) -> set[int]:
        """Which pools are to be told."""
        return (await settle(self.rows.connection, fence, [self.rows.ended(task, outcome)])).other_pools

    async def held(self) -> list[int]:
        found = await self.rows.connection.fetch("select task from key_places order by task")
        return [row["task"] for row in found]


@pytest.fixture
async def pools(postgres: TestPostgres) -> AsyncIterator[Pools]:
    url = await postgres.create_async()
    rows = await Rows.open(url)
    other = await rows.connection.fetchval("insert into pools (name) values ('other') returning id")
    yield Pools(rows, url, await rows.lead(), await rows.lead(other))
    await rows.close()


async def test_a_key_holds_across_pools(pools: Pools) -> None:
    mine = await pools.tasks(pools.one, 3, limit=2)
    theirs = await pools.tasks(pools.two, 1, limit=2)
    assert await pools.start(pools.one, mine[0]) == [mine[0]]
    assert await pools.start(pools.two, theirs[0]) == theirs
    assert await pools.start(pools.one, *mine[1:]) == []
    assert await pools.held() == [mine[0], theirs[0]]


async def test_two_leaders_at_the_same_moment_take_one_place_once(pools: Pools) -> None:
    (mine,), (theirs,) = await pools.tasks(pools.one, 1), await pools.tasks(pools.two, 1)
    requests = await pools.requests([mine]), await pools.requests([theirs])
    first, second = pools.rows.connection, await pools.rows.another_connection()
    begun = first.transaction()
    await begun.start()
    assert (await concurrency_keys.start_with_places(first, pools.one, requests[0]))[1] == set()
    waiting = asyncio.create_task(concurrency_keys.start_with_places(second, pools.two, requests[1]))
    await until_blocked(pools.url, second)
    await begun.commit()
    assert await waiting == ([], {theirs})
    await second.close()


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR, Outcome.LOST, Outcome.RECALLED, Outcome.DISRUPTED])
async def test_however_an_attempt_ends_its_place_is_free_once(pools: Pools, outcome: Outcome) -> None:
    mine, (theirs,) = await pools.tasks(pools.one, 2), await pools.tasks(pools.two, 1)
    assert await pools.start(pools.one, mine[0]) == [mine[0]]
    await pools.ends(pools.one, mine[0], outcome)
    assert await pools.held() == []
    assert await pools.start(pools.two, theirs) == [theirs]
    await pools.ends(pools.one, mine[0], outcome)  # told again: it is another task's place now
    assert await pools.held() == [theirs]


async def test_a_cancelled_task_keeps_its_place_until_it_has_ended(pools: Pools) -> None:
    (mine,), (theirs,) = await pools.tasks(pools.one, 1), await pools.tasks(pools.two, 1)
    await pools.start(pools.one, mine)
    await cancel_and_rerun.cancel_tasks(pools.rows.connection, [mine], pools.rows.tenant, "no more")
    assert await pools.start(pools.two, theirs) == []
    await pools.ends(pools.one, mine, Outcome.CANCELLED)
    assert await pools.start(pools.two, theirs) == [theirs]


async def test_a_start_that_is_stale_takes_no_place(pools: Pools) -> None:
    (mine,), (theirs,) = await pools.tasks(pools.one, 1), await pools.tasks(pools.two, 1)
    stale = await pools.requests([mine])
    await pools.rows.connection.execute("update queue set version = version + 1 where id = $1", mine)
    assert await concurrency_keys.start_with_places(pools.rows.connection, pools.one, stale) == ([], set())
    assert await pools.start(pools.two, theirs) == [theirs]


async def test_a_leader_that_was_replaced_takes_no_place(pools: Pools) -> None:
    (mine,) = await pools.tasks(pools.one, 1)
    new = await pools.rows.lead()
    assert await pools.start(pools.one, mine) == []
    assert await pools.held() == []
    assert await pools.start(new, mine) == [mine]


async def test_the_pool_that_waited_longer_is_next_and_is_told(pools: Pools) -> None:
    mine, theirs = await pools.tasks(pools.one, 3), await pools.tasks(pools.two, 1)
    await pools.start(pools.one, mine[0])
    assert await pools.start(pools.two, *theirs) == []
    assert await pools.ends(pools.one, mine[0]) == {pools.two.pool}
    assert await pools.start(pools.one, mine[1]) == []
    assert await concurrency_keys.watch_keys(pools.rows.connection, pools.one.pool, [(pools.rows.tenant, KEY)]) == {
        (pools.rows.tenant, KEY): 1
    }
    assert await pools.start(pools.two, *theirs) == theirs
    assert await pools.ends(pools.two, theirs[0]) == {pools.one.pool}
    assert await pools.start(pools.one, mine[1]) == [mine[1]]


async def test_a_pool_that_wants_no_place_any_more_is_not_waited_for(pools: Pools) -> None:
    mine, theirs = await pools.tasks(pools.one, 2), await pools.tasks(pools.two, 1)
    await pools.start(pools.one, mine[0])
    assert await pools.start(pools.two, *theirs) == []
    await concurrency_keys.watch_keys(pools.rows.connection, pools.two.pool, [])
    await pools.ends(pools.one, mine[0])
    assert await pools.start(pools.one, mine[1]) == [mine[1]]


async def test_a_place_that_nobody_gave_back_is_swept_and_none_that_is_held(pools: Pools) -> None:
    mine = await pools.tasks(pools.one, 2, limit=2)
    await pools.start(pools.one, *mine)
    await pools.rows.connection.execute("delete from queue where id = $1", mine[0])
    assert await concurrency_keys.sweep_places(pools.rows.connection, pools.two.pool) == []
    assert await concurrency_keys.sweep_places(pools.rows.connection, pools.one.pool) == [mine[0]]
    assert await pools.held() == [mine[1]]


async def test_a_key_nobody_holds_is_forgotten_and_one_that_is_held_is_not(pools: Pools) -> None:
    held, over = await pools.tasks(pools.one, 1), await pools.rows.task(key="other", everywhere=True)
    await pools.start(pools.one, *held)
    await pools.start(pools.one, over)
    await pools.ends(pools.one, over)
    await forget_concurrency_keys(pools.rows.connection)
    assert await pools.rows.connection.fetchval("select array_agg(key) from concurrency_keys") == [KEY]
