"""Limits of a start besides free resources: the tenant's own, the peak mark, and capacity kept for urgent work.

Pure questions with a yes or no. The planner asks them before it looks for a node, `explain` asks them again for people.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.decide import node_resources
from rota.decide.state import CoreState, Need, Tenant
from rota.model.queue import ReadyTask


def over_tenant_limit(state: CoreState, tenant: Tenant, task: ReadyTask) -> bool:
    """Whether the tenant is paused, or would exceed its cores, memory or running tasks."""
    if not tenant.limited:
        return False
    if tenant.paused:
        return True
    cpu, memory, most = tenant.cpu_milli_limit, tenant.memory_bytes_limit, tenant.running_limit
    demand = state.shapes[task.shape].resources
    return (
        (cpu is not None and tenant.cpu_milli + demand.cpu_milli > cpu)
        or (memory is not None and tenant.memory_bytes + demand.memory_bytes > memory)
        or (most is not None and tenant.running >= most)
    )


def over_urgent_share(state: CoreState, tenant: Tenant, need: Need) -> bool:
    """Whether the tenant holds all that its plan allows through the urgent lane, while other tenants wait."""
    if tenant.urgent_held_ppm + need.share_ppm <= tenant.urgent_ppm:
        return False
    return len(state.ready) > tenant.ready


def update_peak(state: CoreState) -> None:
    """The peak begins at the mark and is over a little below it, so that it does not flicker."""
    policy = state.policy
    mark = policy.peak_ppm - policy.peak_slack_ppm if state.peak else policy.peak_ppm
    state.peak = node_resources.utilisation_ppm(state) >= mark


def would_exceed_peak(state: CoreState, need: Need, used: Sequence[int] | None = None) -> bool:
    """Whether a start would take the pool over its peak mark. A task larger than the mark may use an idle pool.

    `used`: what would be used in the pool then; None: what is used now.
    """
    total, used, mark = state.total, state.used if used is None else used, state.policy.peak_ppm
    return any(
        dimension < len(total) and used[dimension] and (used[dimension] + amount) * 1_000_000 > total[dimension] * mark
        for dimension, amount in need.amounts
    )


def used_with(used: Sequence[int], need: Need) -> list[int]:
    """What would be used in the pool with the need."""
    more = list(used)
    for dimension, amount in need.amounts:
        if dimension < len(more):
            more[dimension] += amount
    return more


def keeps_for_urgent(state: CoreState, now_us: int) -> bool:
    """Whether capacity is kept for urgent work: only if some was seen lately, so more is to be expected."""
    policy = state.policy
    if not policy.urgent_kept_ppm or state.urgent_seen_us is None:
        return False
    return now_us - state.urgent_seen_us <= policy.urgent_memory_us


def kept_dimension(state: CoreState, need: Need, used: Sequence[int] | None = None) -> int | None:
    """The first dimension in which a start would use capacity kept for urgent work; None if there is none.

    Capacity smaller than the task asks for is not kept: it would be of no use.
    """
    total, used, kept_ppm = state.total, state.used if used is None else used, state.policy.urgent_kept_ppm
    for dimension, amount in need.amounts:
        whole = total[dimension] if dimension < len(total) else 0
        kept = whole * kept_ppm // 1_000_000
        if kept >= amount and used[dimension] + amount > whole - kept:
            return dimension
    return None
