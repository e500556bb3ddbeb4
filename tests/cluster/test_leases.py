"""Leases and fences: who may lead, who may write, and that nobody waits longer than needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cluster.contenders import Contender, epochs_written, new_pool
from tests.store.rows import until_blocked


@pytest.fixture
async def two(shared: str) -> AsyncIterator[tuple[Contender, Contender]]:
    first = Contender(shared, 0)
    first.pool = await new_pool(await first.connection())
    second = Contender(shared, first.pool)
    yield first, second
    await first.close()
    await second.close()


async def _expire(contender: Contender) -> None:
    connection = await contender.connection()
    await connection.execute(
        "update leases set expires_at = clock_timestamp() - interval '1 second' where pool = $1", contender.pool
    )


async def test_the_first_to_ask_leads_and_the_second_waits(two: tuple[Contender, Contender]) -> None:
    first, second = two
    assert await first.acquire() is not None
    assert await second.acquire() is None


async def test_many_that_ask_at_once_find_one_leader(shared: str) -> None:
    one = Contender(shared, 0)
    pool = await new_pool(await one.connection())
    many = [Contender(shared, pool) for _ in range(8)]
    epochs = await asyncio.gather(*(contender.acquire() for contender in many))
    assert sum(epoch is not None for epoch in epochs) == 1
    for contender in (one, *many):
        await contender.close()


async def test_an_expired_lease_is_taken_over_with_a_higher_epoch_and_can_not_be_renewed(
    two: tuple[Contender, Contender],
) -> None:
    first, second = two
    before = await first.acquire()
    await _expire(first)
    after = await second.acquire()
    assert before is not None
    assert after is not None
    assert after > before
    assert await first.renew() is False
    assert await second.renew() is True


async def test_an_expired_lease_that_nobody_took_can_not_be_renewed_either(two: tuple[Contender, Contender]) -> None:
    first, _ = two
    await first.acquire()
    await _expire(first)
    assert await first.renew() is False


async def test_every_acquisition_raises_the_epoch_also_by_the_same_holder(two: tuple[Contender, Contender]) -> None:
    first, _ = two
    epochs = [await first.acquire() for _ in range(5)]
    assert epochs == sorted(set(epochs))  # type: ignore[type-var]


async def test_an_epoch_reported_by_an_agent_is_acquired_above(two: tuple[Contender, Contender]) -> None:
    first, _ = two
    epoch = await first.acquire()
    assert epoch is not None
    assert await first.acquire(above=epoch + 10**9) == epoch + 10**9 + 1


async def test_a_released_lease_is_free_at_once(two: tuple[Contender, Contender]) -> None:
    first, second = two
    await first.acquire()
    await first.release()
    assert await second.acquire() is not None


async def test_a_renewal_does_not_wait_for_a_batch_that_holds_the_fence(two: tuple[Contender, Contender]) -> None:
    first, _ = two
    await first.acquire()
    assert await first.begin_batch()
    assert await asyncio.wait_for(first.renew(), 5) is True
    assert await first.commit_batch() is True


async def test_batches_of_one_leader_do_not_wait_for_each_other(two: tuple[Contender, Contender]) -> None:
    first, twin = two
    await first.acquire()
    twin.holder, twin.epoch = first.holder, first.epoch
    assert await first.begin_batch()
    assert await asyncio.wait_for(twin.begin_batch(), 5)
    assert await asyncio.wait_for(twin.commit_batch(), 5)
    assert await first.commit_batch()


async def test_a_batch_that_began_in_time_is_written_before_the_take_over(two: tuple[Contender, Contender]) -> None:
    first, second = two
    await first.acquire()
    assert await first.begin_batch(name="a batch that no take-over knows")
    await _expire(first)
    connection = await second.connection()
    taking_over = asyncio.create_task(second.acquire())
    await until_blocked(second.url, connection)
    assert not taking_over.done(), "the fence orders them: first the batch, then the next term"
    assert await first.commit_batch() is True
    assert await asyncio.wait_for(taking_over, 5) is not None
    assert await first.begin_batch() is False


async def test_a_take_over_ends_the_batches_of_a_leader_that_hangs(two: tuple[Contender, Contender]) -> None:
    first, second = two
    await first.acquire()
    assert await first.begin_batch()
    await _expire(first)
    assert await asyncio.wait_for(second.acquire(), 5) is not None
    assert await first.commit_batch() is False
    assert await epochs_written(await second.connection(), first.pool) == []


async def test_a_take_over_leaves_the_batches_of_other_pools_and_other_leaders_alone(
    two: tuple[Contender, Contender], shared: str
) -> None:
    first, second = two
    await first.acquire()
    elsewhere = Contender(shared, await new_pool(await first.connection()))
    await elsewhere.acquire()
    assert await elsewhere.begin_batch()
    await _expire(first)
    await second.acquire()
    assert await elsewhere.commit_batch() is True
    await elsewhere.close()


async def test_an_old_leader_that_wakes_up_is_refused_by_the_fence(two: tuple[Contender, Contender]) -> None:
    first, second = two
    await first.acquire()
    await _expire(first)
    await second.acquire()
    assert await first.begin_batch() is False
    assert await second.begin_batch() is True
    assert await second.commit_batch() is True
    assert await epochs_written(await first.connection(), first.pool) == [second.epoch]
