"""Reservation and backfill: the first task of a rank that fits nowhere reserves the node where it fits first.

Other tasks may start there if they probably end before, or fit beside it: a big task doesn't hold up the small ones.
The time is an estimate, made anew in every pass. Once the earliest time named so far has passed, the reservation is
firm: the task keeps its node, no work waits behind other work there, and only tasks whose cap ends in time may start.
So a stream of small tasks can't starve a big one, however wrong the estimates are.
"""

from __future__ import annotations

from rota.decide.estimates import end_us, longest_us, surely_us
from rota.decide.node_resources import admits, could_hold, fits, move
from rota.decide.state import CoreState, Need, Node, Reservation
from rota.model.queue import NEVER_US, ReadyTask

MOST_LOOKED_AT = 16


def reserve(state: CoreState, task: ReadyTask, rank: int, now_us: int) -> Reservation | None:
    """The earliest reservation, or None if no node could ever hold the task or too many nodes are reserved.

    Reservations of later ranks do not count: they give way.
    """
    held = {reservation.node for reservation in state.reservations.values() if reservation.rank < rank}
    most = _most_nodes(state)
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


def keep(state: CoreState, reserved: Reservation, now_us: int) -> None:
    """Adds the reservation. If too many nodes are reserved then, the latest rank gives its reservation up."""
    state.reservations[reserved.rank] = reserved
    note_time(state, reserved, now_us)
    while len({reservation.node for reservation in state.reservations.values()}) > _most_nodes(state):
        latest = max(state.reservations)
        if latest <= reserved.rank:
            return
        del state.reservations[latest]


def _most_nodes(state: CoreState) -> int:
    return max(1, len(state.nodes) * state.policy.reserved_nodes_ppm // 1_000_000)


def estimate_again(state: CoreState, kept: Reservation, need: Need, now_us: int) -> bool:
    """Sets the reservation's time and its spare resources as they are now; False if its node can't hold the task."""
    node = state.nodes.get(kept.node)
    if node is None or not admits(need, node) or not could_hold(need, node):
        return False
    if not kept.preempting:
        kept.at_us, kept.spare = earliest(state, node, need, now_us)
        note_time(state, kept, now_us)
    return True


def note_time(state: CoreState, kept: Reservation, now_us: int) -> None:
    """The reservation is firm once the earliest time that its task was given has come."""
    blocked = state.blocked.get(kept.rank)
    if blocked is not None and blocked.task == kept.task:
        kept.firm = blocked.by_us <= now_us
        blocked.by_us = min(blocked.by_us, kept.at_us)


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
    if node.behind:
        at_us += state.policy.ahead_us  # prefetched work comes first
    for dimension, amount in need.amounts:
        free[dimension] -= amount
    return at_us, free


def may_use(state: CoreState, node: Node, need: Need, task: ReadyTask, rank: int, now_us: int) -> bool:
    """Whether a start there delays no task with a reservation. If so, takes the need out of what is spare."""
    beside: list[list[int]] = []
    for reservation in state.reservations.values():
        if reservation.node != node.id or reservation.task == task.id or rank < reservation.rank:
            continue
        lasts_us = surely_us(task) if reservation.firm else longest_us(state, task)
        if not reservation.preempting and now_us + lasts_us <= reservation.at_us:
            continue
        spare = reservation.spare
        if any(dimension >= len(spare) or spare[dimension] < amount for dimension, amount in need.amounts):
            return False
        beside.append(spare)
    for spare in beside:
        for dimension, amount in need.amounts:
            spare[dimension] -= amount
    return True


def leaves_time(state: CoreState, node: Node, task: ReadyTask, now_us: int) -> bool:
    """Whether short work may wait on the node: not just before a reservation, nor where one is firm."""
    ahead_us = now_us + 2 * state.policy.ahead_us
    return all(
        r.node != node.id or r.task == task.id or not (r.preempting or r.firm or r.at_us <= ahead_us)
        for r in state.reservations.values()
    )
