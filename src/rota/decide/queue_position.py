"""A ready task's position in the queue: the tasks and tenants before it. Pure reading: nothing in the core changes."""

from __future__ import annotations

import msgspec

from rota.decide import concurrency_keys, ready
from rota.decide.node_resources import admits, fits
from rota.decide.state import CoreState, Need, Node, Tenant
from rota.model.queue import ReadyTask


class Position(msgspec.Struct, frozen=True):
    mine: int  # tasks of its own tenant before it
    tenants: int  # other tenants that are served before its own


def position_of(state: CoreState, task: ReadyTask, tenant: Tenant) -> Position:
    """Its tenant's own tasks before it, and the tenants with a task of a lower rank or with a lower charge."""
    rank, order, mine = ready.rank_of(state, task.lane), task.order[1:], 0
    ranks = {lane: ready.rank_of(state, lane) for lane in state.lanes}
    best: dict[int, int] = {}  # other tenants → the lowest rank of their tasks
    for other in state.ready.values():
        other_rank = ranks.get(other.lane, 2)
        if other.tenant != task.tenant:
            if other_rank < best.get(other.tenant, 1 << 30):
                best[other.tenant] = other_rank
        elif (
            other.id != task.id
            and (other_rank, other.order[1:]) < (rank, order)
            and concurrency_keys.is_open(state, other)
        ):
            mine += 1
    key = tenant.key
    ahead = 0
    for number, other_rank in best.items():
        if ready.is_gated(other_rank) and state.peak:
            continue
        ahead += other_rank < rank or (other_rank == rank and (state.tenants[number].key, number) < (key, tenant.id))
    return Position(mine, ahead)


def fitting_nodes(state: CoreState, need: Need) -> list[Node]:
    return [node for node in state.nodes.values() if fits(need, node.free, node.devices) and admits(need, node)]
