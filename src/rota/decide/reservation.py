"""Reservation and backfill: a task that fits nowhere reserves the node where it fits first, and keeps it.

Other tasks may start there if they end before, or fit beside it. So a stream of small tasks can't starve a big one, and
a big one doesn't hold up the small ones.
"""

from __future__ import annotations

from rota.decide.estimates import end_us, longest_us
from rota.decide.node_resources import admits, could_hold, fits, move
from rota.decide.state import CoreState, Need, Node, Reservation
from rota.model.queue import ReadyTask

MOST_LOOKED_AT = 16
NEVER_US = 1 << 62


def reserve(state: CoreState, task: ReadyTask, rank: int, now_us: int) -> Reservation | None:
    """The earliest reservation, or None if no node could ever hold the task or too many nodes are reserved."""
    held = {reservation.node for reservation in state.reservations.values()}
    most = max(1, len(state.nodes) * state.policy.reserved_nodes_ppm // 1_000_000)
    need = state.needs[task.shape]
    best: Reservation | None = None
    looked_at = 0
    for node in state.nodes.values():
        if not admits(need, node) or not could_hold(need, node):
            continue
        if node.id not in held and len(held) >= most:
            continue
        looked_at += 1
        if looked_at > MOST_LOOKED_AT:
            break
        at_us, spare = earliest(state, node, need, now_us, NEVER_US if best is None else best.at_us)
        if best is None or at_us < best.at_us:
            best = Reservation(task.id, rank, node.id, at_us, spare)
    return best


def earliest(state: CoreState, node: Node, need: Need, now_us: int, before_us: int = NEVER_US) -> tuple[int, list[int]]:
    """When the need fits on the node if all work ends as expected, and the free resources beside it then.

    The search stops at `before_us`: then the time is that or later, and the free resources are unknown.
    """
    free, devices = list(node.free), list(node.devices)
    at_us = now_us
    held = state.running
    for end, number in sorted([(end_us(state, held[number], now_us), number) for number in node.held]):
        if fits(need, free, devices):
            break
        running = held[number]
        move(state.needs[running.shape], running.devices, free, devices)
        at_us = end
        if at_us >= before_us:
            break
    for dimension, amount in need.amounts:
        free[dimension] -= amount
    return at_us, free


def may_use(state: CoreState, node: Node, need: Need, task: ReadyTask, rank: int, now_us: int) -> bool:
    """Whether a start there delays no task with a reservation. If so, takes the need out of what is spare."""
    beside: list[list[int]] = []
    for reservation in state.reservations.values():
        if reservation.node != node.id or reservation.task == task.id or rank < reservation.rank:
            continue
        if not reservation.preempting and now_us + longest_us(state, task) <= reservation.at_us:
            continue
        spare = reservation.spare
        if any(dimension >= len(spare) or spare[dimension] < amount for dimension, amount in need.amounts):
            return False
        beside.append(spare)
    for spare in beside:
        for dimension, amount in need.amounts:
            spare[dimension] -= amount
    return True


def leaves_time(state: CoreState, node: Node, now_us: int) -> bool:
    """Whether short work may wait on the node: never where a task was preempted, nor just before a reservation."""
    if not state.reservations:
        return True
    ahead_us = now_us + 2 * state.policy.ahead_us
    return all(r.node != node.id or (not r.preempting and r.at_us > ahead_us) for r in state.reservations.values())
