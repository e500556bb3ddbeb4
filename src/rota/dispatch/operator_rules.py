"""Operators' rules for lanes, pool and tenants, tenants' shares, and run times: read when a term begins, rules again
with every slow poll; shares and run times are saved for the next leader.

Only the cycle reads rules, so what the core knows is never older than the version that its starts name.
"""

from __future__ import annotations

from dataclasses import replace

from rota.decide.messages import LaneKnown, PolicyKnown, SharesKnown
from rota.dispatch.pool import PoolState
from rota.dispatch.recalls import request_recall
from rota.store import catalogue, run_times, shares
from rota.store.database import AnyConnection

# Longer run times are saved as this one: readers only ask whether 30 times as long is more than an hour.
LONGEST_TYPICAL_US = 120_000_000
MOST_SAVED = 1_000  # run times in one round; the rest in the next


async def follow_rules(pool: PoolState, connection: AnyConnection) -> bool:
    """Applies the rules if they have changed since they were last read; whether they had."""
    if await catalogue.rules_version(connection, pool.id) == pool.rules:
        return False
    await learn_rules(pool, connection)
    return True


async def learn_rules(pool: PoolState, connection: AnyConnection) -> None:
    """Applies changed rules; called with every slow poll."""
    version = await catalogue.rules_version(connection, pool.id)
    for lane in await catalogue.read_lanes(connection):
        if pool.core.state.lanes.get(lane.number) != (lane.level, lane.gated):
            pool.core.apply(LaneKnown(lane.number, lane.level, lane.gated), pool.now_us())
            pool.loader.forget_cursors()
    rules = next((rule for rule in await catalogue.read_pools(connection) if rule.id == pool.id), None)
    if rules is None:
        return  # the pool was removed; membership ends this term
    current = pool.core.state.policy
    policy = replace(
        current,
        peak_ppm=10_000 * rules.peak_percent,
        urgent_kept_ppm=10_000 * rules.urgent_kept_percent,
        pool_running_limit=rules.running_tasks,
        paused=rules.paused,
        elastic=rules.elastic,
    )
    if policy != current:
        pool.core.apply(PolicyKnown(policy), pool.now_us())
    if version != pool.rules:
        await pool.loader.learn_all_tenants(connection, pool.now_us())
        _recall_paused(pool)
    pool.rules = version  # last: a start under the new version follows the new rules


def _recall_paused(pool: PoolState) -> None:
    state = pool.core.state
    if state.policy.paused:
        request_recall(pool)
    else:
        for number in sorted(number for number, tenant in state.tenants.items() if tenant.paused):
            request_recall(pool, tenant=number)


async def restore_shares(pool: PoolState, connection: AnyConnection) -> None:
    """Continues with the last leader's charges. Called after the core knows the tenants."""
    charged, saved_us = await shares.read_shares(connection, pool.id)
    if charged:
        pool.core.apply(SharesKnown(charged, saved_us), pool.now_us())


async def save_shares(pool: PoolState, connection: AnyConnection) -> None:
    charged = pool.core.shares(pool.now_us())
    if charged:
        await shares.save_shares(connection, pool.id, charged)


async def save_run_times(pool: PoolState, connection: AnyConnection) -> None:
    """Saves run times that differ from the saved ones by more than an eighth."""
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
        if len(saved) > 2 * len(pool.core.state.run_us) + MOST_SAVED:  # the core has forgotten most of them
            saved.clear()
