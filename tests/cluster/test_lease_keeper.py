"""The keeper: renews while this node's loop lives, and gives up its trust before the database gives up its lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from rota.cluster.leases import Lease, LeaseKeeper
from rota.settings import Timings
from rota.store.database import connect
from tests.cluster.contenders import Contender, new_pool

TIMINGS = Timings().scaled(0.25)  # lease 2.5 s, renewed every 0.75 s, trusted for 2 s


class Kept:
    """A lease in the hands of a keeper, and the moment at which the keeper said it was lost."""

    def __init__(self, contender: Contender, url: str) -> None:
        self.contender = contender
        self.lost: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self.keeper = LeaseKeeper(url, TIMINGS, self.lost.set_result)

    async def begin(self) -> None:
        sent = time.monotonic()
        epoch = await self.contender.acquire(seconds=TIMINGS.lease_seconds)
        assert epoch is not None
        trusted_until = sent + TIMINGS.trust_seconds
        self.lease = Lease(self.contender.pool, epoch, self.contender.holder, trusted_until=trusted_until)
        self.keeper.start()
        self.keeper.hold(self.lease)

    async def free_in_the_database(self) -> bool:
        connection = await self.contender.connection()
        return bool(
            await connection.fetchval(
                "select expires_at < clock_timestamp() from leases where pool = $1", self.contender.pool
            )
        )


@pytest.fixture
async def contender(shared: str) -> AsyncIterator[Contender]:
    one = Contender(shared, 0)
    one.pool = await new_pool(await one.connection())
    yield one
    await one.close()


@pytest.fixture
async def kept(contender: Contender, shared: str) -> AsyncIterator[Kept]:
    held = Kept(contender, shared)
    await held.begin()
    yield held
    await held.keeper.stop()


async def test_a_lease_is_renewed_for_as_long_as_the_loop_runs(kept: Kept) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(kept.lost), 1.6 * TIMINGS.lease_seconds)
    assert kept.lease.valid()
    assert not await kept.free_in_the_database()


async def test_a_blocked_loop_loses_its_lease_and_the_trust_ends_first(kept: Kept) -> None:
    await asyncio.sleep(0)
    time.sleep(1.6 * TIMINGS.lease_seconds)
    assert not kept.lease.valid()
    assert await kept.free_in_the_database(), (
        "another node may lead; this one did not renew for a loop that stands still"
    )
    assert await asyncio.wait_for(kept.lost, 5) is kept.lease


async def test_a_lease_that_somebody_took_over_is_over_at_the_next_renewal(kept: Kept) -> None:
    other = Contender(kept.contender.url, kept.contender.pool)
    connection = await other.connection()
    await connection.execute("update leases set expires_at = '-infinity' where pool = $1", other.pool)
    assert await other.acquire() is not None
    assert await asyncio.wait_for(kept.lost, 5) is kept.lease
    assert not kept.lease.valid()
    await other.close()


async def test_renewals_go_on_over_a_new_connection_when_theirs_is_ended(kept: Kept) -> None:
    watcher = await connect(kept.contender.url, {})
    ended = 0
    while not ended:
        ended = await watcher.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'rota lease'"
        )
    await watcher.close()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(kept.lost), 1.5 * TIMINGS.lease_seconds)
    assert kept.lease.valid()


async def test_a_database_out_of_reach_ends_the_trust_in_time(contender: Contender) -> None:
    held = Kept(contender, "postgresql://postgres@/nowhere?host=/nonexistent")
    began = time.monotonic()
    await held.begin()
    assert await asyncio.wait_for(held.lost, 5) is held.lease
    assert time.monotonic() - began >= TIMINGS.trust_seconds * 0.9
    assert not await held.free_in_the_database() or time.monotonic() - began > TIMINGS.lease_seconds
    await held.keeper.stop()


def test_a_lease_that_is_over_never_comes_back() -> None:
    lease = Lease(1, 1, Contender("", 0).holder, trusted_until=time.monotonic() + 60)
    assert lease.valid()
    lease.end()
    lease.extend(time.monotonic() + 60)
    assert not lease.valid()


def test_the_timings_keep_their_order_at_any_scale() -> None:
    for factor in (0.01, 0.2, 1.0, 10.0):
        timings = Timings().scaled(factor)
        assert timings.renew_seconds < timings.trust_seconds < timings.lease_seconds
        assert timings.fence_ms(timings.grace_ms(1000)) < timings.grace_ms(1000)


def test_a_term_whose_trust_ran_out_never_comes_back() -> None:
    """What was left half done in the belief that it was over is found by the next leader only."""
    now = 0.0

    def clock() -> float:
        return now

    seen, unseen = (Lease(1, 1, Contender("", 0).holder, trusted_until=8.0, clock=clock) for _ in range(2))
    now = 8.0
    assert not seen.valid()
    for lease in (seen, unseen):
        lease.renewed(True, sent=7.0, trust_seconds=8.0)
        assert not lease.valid()
