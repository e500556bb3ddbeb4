"""What operators have said about lanes and the pool, tenants' shares, and how long work takes: read as a term begins,
and looked after.
"""

from __future__ import annotations

from dataclasses import replace

from rota.decide.messages import LaneKnown, PolicyKnown, SharesKnown
from rota.dispatch.pool import PoolState
from rota.store import catalogue, run_times, shares
from rota.store.database import AnyConnection

# Work that takes longer than this is all alike to whom it matters: 30 times as long is more than an hour.
LONGEST_TYPICAL_US = 120_000_000
MOST_SAVED = 1_000  # names at once; the rest the next time


async def learn_rules(pool: PoolState, connection: AnyConnection) -> None:
    """Takes in what has changed; called with every slow poll."""
    for lane in await catalogue.read_lanes(connection):
        if pool.core.state.lanes.get(lane.number) != (lane.level, lane.gated):
            pool.core.apply(LaneKnown(lane.number, lane.level, lane.gated), pool.now_us())
    rules = next((one for one in await catalogue.read_pools(connection) if one.id == pool.id), None)
    if rules is None:
        return  # gone from the table; membership ends this term
    known = pool.core.state.policy
    policy = replace(
        known,
        peak_ppm=10_000 * rules.peak_percent,
        urgent_kept_ppm=10_000 * rules.urgent_kept_percent,
        pool_running_limit=rules.running_tasks,
        paused=rules.paused,
    )
    if policy != known:
        pool.core.apply(PolicyKnown(policy), pool.now_us())


async def restore_shares(pool: PoolState, connection: AnyConnection) -> None:
    """After the tenants are known: this leader is as fair as the last one."""
    charged, saved_us = await shares.read_shares(connection, pool.id)
    if charged:
        pool.core.apply(SharesKnown(charged, saved_us), pool.now_us())


async def save_shares(pool: PoolState, connection: AnyConnection) -> None:
    charged = pool.core.shares(pool.now_us())
    if charged:
        await shares.save_shares(connection, pool.id, charged)


async def save_run_times(pool: PoolState, connection: AnyConnection) -> None:
    """What has been learned since it was last saved, where it differs by more than an eighth."""
    saved, news = pool.polled.run_times_saved, dict[tuple[int, int], int]()
    for work, mean_us in pool.core.state.run_us.items():
        typical_us = min(mean_us, LONGEST_TYPICAL_US)
        before = saved.get(work)
        if before is None or 8 * abs(typical_us - before) > before:
            news[work] = typical_us
            if len(news) == MOST_SAVED:
                break
    if news:
        await run_times.save_run_times(connection, news)
        saved.update(news)
        if len(saved) > 2 * len(pool.core.state.run_us) + MOST_SAVED:  # the core forgets; so do we
            saved.clear()
