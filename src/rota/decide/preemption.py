"""Preemption: running tasks are asked to give way to a task that can't wait.

Only for an urgent task that fits nowhere, or for a task that would miss its tolerance and is very short compared with
the victim's remaining time. Only preemptible tasks are victims: the lowest lane first, then the tenant with the highest
charge, then the least lost work. Never if more is lost than gained, and at a bounded rate.
"""

from __future__ import annotations

from rota.decide import limits
from rota.decide.estimates import DAY_US, end_us
from rota.decide.messages import Preempt
from rota.decide.node_resources import admits, could_hold, fits, move
from rota.decide.ready import is_gated
from rota.decide.reservation import earliest
from rota.decide.state import CoreState, Need, Node, Reservation, Running
from rota.model.queue import ReadyTask

MOST_LOOKED_AT = 64
SHORT_PART = 100  # a task is short if its cap is at most a hundredth of the victim's remaining time


def make_room(state: CoreState, task: ReadyTask, rank: int, now_us: int) -> list[Preempt]:
    """The tasks to preempt, if any. Their node is then reserved for the task."""
    kept = state.reservations.get(rank)
    if kept is not None and (kept.preempting or (kept.firm and kept.task != task.id)):
        return []  # one at a time: the last victims have not left yet, or another task has waited for its node too long
    allowed = _tokens(state, now_us)
    if not allowed:
        return []
    need = state.needs[task.shape]
    best: tuple[int, int, list[int]] | None = None
    looked_at = 0
    for node in state.nodes.values():
        if not admits(need, node) or not could_hold(need, node):
            continue
        victims = [number for number in node.held if _may_take(state, state.running[number], task, rank, now_us)]
        if not victims:
            continue
        looked_at += 1
        if looked_at > MOST_LOOKED_AT:
            break
        chosen = _enough(state, node, need, victims, now_us)
        if chosen is None or len(chosen) > allowed or _in_vain(state, need, rank, chosen):
            continue
        natural_us, _ = earliest(state, node, need, now_us)
        if not _worth_it(state, task, rank, chosen, natural_us - now_us, now_us):
            continue
        lost = sum(_lost(state, state.running[number], now_us) for number in chosen)
        if best is None or lost < best[0]:
            best = (lost, node.id, chosen)
    if best is None:
        return []
    _, node_id, chosen = best
    node = state.nodes[node_id]
    state.preempted += len(chosen)
    for number in chosen:
        state.running[number].stopping = True
    _, spare = earliest(state, node, need, now_us)
    state.reservations[rank] = Reservation(
        task.id, rank, node_id, now_us, [min(s, r) for s, r in zip(spare, node.free, strict=True)], True
    )
    return [Preempt(number, node_id, task.id) for number in chosen]


def _may_take(state: CoreState, running: Running, task: ReadyTask, rank: int, now_us: int) -> bool:
    if not running.preemptible or running.stopping or not running.granted or running.rank < max(rank, 1):
        return False
    if rank == 0:
        return True
    left_us = running.since_us + (running.cap_us or DAY_US) - now_us
    return task.cap_ms * 1000 * SHORT_PART <= left_us


def _enough(state: CoreState, node: Node, need: Need, victims: list[int], now_us: int) -> list[int] | None:
    """As few victims as needed, in the order in which they should go; None if even all are not enough."""

    def held(number: int) -> tuple[Need, tuple[int, ...]]:
        running = state.running[number]
        return state.needs[running.shape], running.devices

    free, devices = list(node.free), list(node.devices)
    chosen: list[int] = []
    for number in sorted(victims, key=lambda n: _in_order(state, n, now_us)):
        move(*held(number), free, devices)
        chosen.append(number)
        if fits(need, free, devices):
            break
    else:
        return None
    for number in chosen[-2::-1]:  # a large last victim may be enough without the earlier ones
        move(*held(number), free, devices, -1)
        if fits(need, free, devices):
            chosen.remove(number)
        else:
            move(*held(number), free, devices)
    return chosen


def _in_vain(state: CoreState, need: Need, rank: int, chosen: list[int]) -> bool:
    """Whether the peak mark, or capacity kept for urgent work, forbids the start even without these victims."""
    if rank == 0 or not (is_gated(rank) or state.kept):
        return False
    used = list(state.used)
    for number in chosen:
        for dimension, amount in state.needs[state.running[number].shape].amounts:
            used[dimension] -= amount
    return (is_gated(rank) and limits.would_exceed_peak(state, need, used)) or (
        state.kept and limits.kept_dimension(state, need, used) is not None
    )


def _in_order(state: CoreState, number: int, now_us: int) -> tuple[int, int, int, int]:
    """The lowest lane first, then the tenant with the highest charge, then the least lost work."""
    running = state.running[number]
    return -running.rank, -state.tenants[running.tenant].key, _lost(state, running, now_us), number


def _lost(state: CoreState, running: Running, now_us: int) -> int:
    """Resource-time that has to be repeated: the work since its last possible save."""
    return state.needs[running.shape].share_ppm * min(now_us - running.since_us, state.policy.lost_at_most_us)


def _worth_it(state: CoreState, task: ReadyTask, rank: int, chosen: list[int], wait_us: int, now_us: int) -> bool:
    """For an urgent task, the wait it is spared counts tenfold; a short task must be late otherwise."""
    if wait_us < state.policy.gain_us:
        return False
    if rank != 0:
        return now_us + wait_us > task.late_us
    gained = 10 * state.needs[task.shape].share_ppm * wait_us
    lost = sum(_lost(state, state.running[number], now_us) for number in chosen)
    soonest = min(end_us(state, state.running[number], now_us) for number in chosen)
    return gained >= lost and soonest - now_us >= state.policy.gain_us


def _tokens(state: CoreState, now_us: int) -> int:
    back = (now_us - state.preempted_us) // state.policy.preempt_every_us
    if back > 0:
        state.preempted = max(0, state.preempted - back)
        state.preempted_us = now_us
    return max(0, state.policy.preempt_burst - state.preempted)
