"""What operators have said about lanes and the pool, and tenants' shares: read as a term begins, and looked after."""

from __future__ import annotations

from dataclasses import replace

from rota.decide.messages import LaneKnown, PolicyKnown, SharesKnown
from rota.dispatch.pool import PoolState
from rota.store import catalogue, shares
from rota.store.database import AnyConnection


async def learn_rules(pool: PoolState, connection: AnyConnection) -> None:
    """Takes in what has changed; called with every slow poll."""
    for lane in await catalogue.read_lanes(connection):
        if pool.core.state.lanes.get(lane.rank) != (lane.level, lane.gated):
            pool.core.apply(LaneKnown(lane.rank, lane.level, lane.gated), pool.now_us())
    rules = next((one for one in await catalogue.read_pools(connection) if one.id == pool.id), None)
    if rules is None:
        return  # gone from the table; membership ends this term
    known = pool.core.state.policy
    policy = replace(
        known,
        peak_ppm=10_000 * rules.peak_percent,
        urgent_kept_ppm=10_000 * rules.urgent_kept_percent,
        pool_running_limit=rules.running_tasks,
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
