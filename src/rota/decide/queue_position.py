"""A ready task's position in the queue, and when it will probably start. Pure reading: nothing in the core changes.

Both assume that no new task arrives. They are estimates for people, never inputs of a decision.
"""

from __future__ import annotations

import msgspec

from rota.decide import concurrency_keys, ready
from rota.decide.estimates import DAY_US, end_us, likely_us, longest_us
from rota.decide.node_resources import admits, could_hold, fits
from rota.decide.placement import Placement, width
from rota.decide.reservation import earliest
from rota.decide.state import CoreState, Need, Node, Tenant
from rota.model.queue import ReadyTask

MOST_LOOKED_AT = 64  # nodes whose ends are estimated
MOST_RUNNING = 20_000  # tasks whose ends are estimated
LONGEST_US = 365 * DAY_US  # an estimate beyond this is useless


class Position(msgspec.Struct, frozen=True):
    mine: int  # tasks of its own tenant before it
    tenants: int  # other tenants that are served before its own


class Start(msgspec.Struct, frozen=True):
    at_us: int | None
    basis: str
    node: int | None = None


UNKNOWN = Start(None, "unknown")


def position_of(state: CoreState, task: ReadyTask, tenant: Tenant) -> Position:
    """Its tenant's own tasks before it, and the tenants with a task of a lower rank or with a lower charge."""
    rank, order, mine = ready.rank_of(state, task.lane), task.order, 0
    ranks = {lane: ready.rank_of(state, lane) for lane in state.lanes}
    best: dict[int, int] = {}  # other tenants → the lowest rank of their tasks
    for other in state.ready.values():
        other_rank = ranks.get(other.lane, 2)
        if other.tenant != task.tenant:
            if other_rank < best.get(other.tenant, 1 << 30):
                best[other.tenant] = other_rank
        elif (
            other.id != task.id and (other_rank, other.order) < (rank, order) and concurrency_keys.is_open(state, other)
        ):
            mine += 1
    key = tenant.key
    ahead = 0
    for number, other_rank in best.items():
        if ready.is_gated(other_rank) and state.peak:
            continue
        ahead += other_rank < rank or (other_rank == rank and (state.tenants[number].key, number) < (key, tenant.id))
    return Position(mine, ahead)


def start_of(
    state: CoreState,
    placement: Placement,
    task: ReadyTask,
    need: Need,
    position: Position,
    fitting: list[Node],
    now_us: int,
) -> Start:
    """When and where the task starts, and the basis of the estimate. `fitting`: the nodes where it fits now."""
    nodes = [node for node in state.nodes.values() if admits(need, node) and could_hold(need, node)]
    if not nodes:
        return UNKNOWN
    first = _first_start(state, placement, need, nodes, fitting, now_us)
    ahead = _tasks_ahead(state, task, position)
    if not ahead:
        return first
    mean = _mean_us(state, task)
    if mean is None:
        ends = _ends(state, nodes, now_us)
        return Start(max(first.at_us or now_us, ends[ahead]), "running-tasks") if ahead < len(ends) else UNKNOWN
    at_once = sum(width(need, node) for node in nodes)
    at_us = max(first.at_us or now_us, now_us + ahead * mean // max(1, at_once))
    return Start(at_us, "throughput") if at_us - now_us < LONGEST_US else UNKNOWN


def start_beside(state: CoreState, limits: dict[int, int], now_us: int) -> Start:
    """When no more than `limits` (dimension → amount) is in use, if nothing new starts."""
    if len(state.running) > MOST_RUNNING:
        return UNKNOWN
    over = {
        dimension: state.used[dimension] - most for dimension, most in limits.items() if state.used[dimension] > most
    }
    ends = sorted(
        (end_us(state, running, now_us), number)
        for number, running in state.running.items()
        if running.granted and (node := state.nodes.get(running.node)) is not None and node.open
    )
    for at_us, number in ends:
        for dimension, amount in state.needs[state.running[number].shape].amounts:
            if dimension in over:
                over[dimension] -= amount
                if over[dimension] <= 0:
                    del over[dimension]
        if not over:
            return Start(at_us, "load")
    return UNKNOWN


def start_after_kept(state: CoreState, nodes: list[Node], now_us: int) -> Start:
    """When the first of the tasks that have these nodes reserved has probably ended."""
    ends = []
    for kept in state.reservations.values():
        holder = state.ready.get(kept.task)
        if holder is not None and any(node.id == kept.node for node in nodes):
            ends.append((max(now_us, kept.at_us) + longest_us(state, holder), kept.node))
    if not ends:
        return UNKNOWN
    at_us, node = min(ends)
    return Start(at_us, "after-reserved", node)


def start_after_key(state: CoreState, task: ReadyTask, now_us: int) -> Start:
    """When the task's concurrency key is free for it: as its holders end, in the order of the waiting tasks."""
    if task.concurrency_global and state.keys[concurrency_keys.name_of(task)].elsewhere:
        return UNKNOWN  # only the other pools know when their tasks end
    name = (task.concurrency_key, task.concurrency_global, task.tenant)
    ends = sorted(
        end_us(state, running, now_us)
        for running in state.running.values()
        if (running.concurrency_key, running.concurrency_global, running.tenant) == name
    )
    if not ends:
        return UNKNOWN
    before = sum(
        1
        for other in state.ready.values()
        if (other.concurrency_key, other.concurrency_global, other.tenant) == name and other.order < task.order
    )
    rounds, turn = divmod(before, len(ends))
    mean = likely_us(state, task.tenant, task.work, task.cap_ms * 1000)
    return Start(ends[turn] + rounds * mean, "concurrency-key")


def _first_start(
    state: CoreState, placement: Placement, need: Need, nodes: list[Node], fitting: list[Node], now_us: int
) -> Start:
    if fitting:
        return Start(now_us, "free-now", min(fitting, key=lambda node: (placement.score(need, node), node.id)).id)
    at_us, node = min((earliest(state, node, need, now_us)[0], node.id) for node in nodes[:MOST_LOOKED_AT])
    return Start(at_us, "running-tasks", node)


def _ends(state: CoreState, nodes: list[Node], now_us: int) -> list[int]:
    """When attempts end on nodes where the task could run: roughly, each end lets one more task start."""
    held = [number for node in nodes[:MOST_LOOKED_AT] for number in node.held]
    return sorted(end_us(state, state.running[number], now_us) for number in held)


def _tasks_ahead(state: CoreState, task: ReadyTask, position: Position) -> int:
    """How many tasks start first: the own ones, and one of each tenant ahead for every own turn."""
    own = state.tenants.get(task.tenant)
    weight = own.weight if own is not None else 1
    others = sum(other.weight for other in state.tenants.values() if other.ready and other.id != task.tenant)
    return position.mine + position.tenants + position.mine * others // max(1, weight)


def _mean_us(state: CoreState, task: ReadyTask) -> int | None:
    """The mean run time of such work, else of the running tasks."""
    own = state.run_us.get((task.tenant, task.work))
    if own is not None:
        return own
    means = [
        mean
        for running in state.running.values()
        if (mean := state.run_us.get((running.tenant, running.work))) is not None
    ]
    return sum(means) // len(means) if means else None


def fitting_nodes(state: CoreState, need: Need) -> list[Node]:
    return [node for node in state.nodes.values() if fits(need, node.free, node.devices) and admits(need, node)]
