"""A copy of the core's memory, so that a forecast can play on without touching the original.

Records that change are copied; those that never do (tasks, shapes) and those that a forecast never writes (learned run
times) are shared.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import replace

from msgspec.structs import replace as changed

from rota.decide.state import CoreState, Dimensions, Group, GroupName, Node, RankQueue, Tenant, TenantQueue


def copied(state: CoreState) -> CoreState:
    dimensions = Dimensions(dict(state.dimensions.custom))
    groups = {name: replace(group) for name, group in state.groups.items()}
    return replace(
        state,
        dimensions=dimensions,
        nodes={number: _node(node, dimensions) for number, node in state.nodes.items()},
        shapes=dict(state.shapes),
        needs={number: copy.copy(need) for number, need in state.needs.items()},
        lanes=dict(state.lanes),
        tenants={number: _tenant(tenant) for number, tenant in state.tenants.items()},
        ready=dict(state.ready),
        running={number: copy.copy(running) for number, running in state.running.items()},
        keys={name: replace(key, waiting=list(key.waiting)) for name, key in state.keys.items()},
        cooled=dict(state.cooled),
        ranks={number: _rank(number, rank, groups) for number, rank in state.ranks.items()},
        groups=groups,
        total=list(state.total),
        used=list(state.used),
        blocked={rank: replace(blocked) for rank, blocked in state.blocked.items()},
        reservations={rank: replace(kept, spare=list(kept.spare)) for rank, kept in state.reservations.items()},
    )


def _node(node: Node, dimensions: Dimensions) -> Node:
    return changed(
        node,
        total=list(node.total),
        free=list(node.free),
        devices=list(node.devices),
        dimensions=dimensions,
        held=dict(node.held),
        behind=OrderedDict(node.behind),
        slow=set(node.slow),
    )


def _tenant(tenant: Tenant) -> Tenant:
    queues = {
        rank: TenantQueue({shape: list(heap) for shape, heap in queue.heaps.items()}, list(queue.heads))
        for rank, queue in tenant.queues.items()
    }
    return replace(tenant, queues=queues, stuck=dict(tenant.stuck))


def _rank(number: int, rank: RankQueue, groups: dict[GroupName, Group]) -> RankQueue:
    """The groups are those of the copy: a group is both in its rank and in the list of all."""
    return replace(
        rank,
        heap=list(rank.heap),
        entries=dict(rank.entries),
        open={shape: groups[number, shape] for shape in rank.open},
        closed={shape: groups[number, shape] for shape in rank.closed},
    )
