"""Why a task waits: a slug, a sentence with numbers, and when it starts, or why nobody can say when.

`explain` answers for tasks in memory and for tasks that a preview or the database describes. Pure reading: nothing in
the core changes. The reasons of a queued task are in `waiting.py`, the estimates in `forecasts/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rota.decide import node_resources, wording
from rota.decide.forecasts.forecast import Forecast, Planned
from rota.decide.placement import Placement, width
from rota.decide.reason import NOT_WAITING, Reason
from rota.decide.state import CoreState, Dimensions, Running
from rota.decide.waiting import Start, Waiting
from rota.decide.wording import Names


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A task that waits has an estimated start, or a sentence why there is none."""

    reason: Reason
    sentence: str
    position: int | None = None  # in the queue, from 1: behind own tasks and other tenants
    ahead_of_mine: int | None = None  # tasks of its own tenant before it
    tenants_ahead: int | None = None
    estimated_start_us: int | None = None
    basis: str = "unknown"  # of the estimate
    run_times: str | None = None  # where the run times behind the estimate come from; None: there are none
    start_unknown: str = ""  # why there is no estimate
    likely_node: int | None = None
    suitable_nodes: int | None = None  # could hold it when empty
    free_nodes: int | None = None  # fit it now

    def __post_init__(self) -> None:
        assert self.reason in NOT_WAITING or self.estimated_start_us is not None or self.start_unknown, self


class Probe(Planned, frozen=True, kw_only=True):
    """A task that the core does not know: its shape and its tenant may be new to it."""

    in_database: int | None = None  # ready tasks of its tenant before it, some of which are not in memory

    @property
    def is_expected(self) -> bool:
        """Whether a forecast should start it: not if tasks that are not in memory come first."""
        return self.in_database is None


def explain(
    state: CoreState,
    placement: Placement,
    asked: Sequence[int | Probe],
    now_us: int,
    names: Names,
    expected: Callable[[], Forecast],
) -> list[Explanation | None]:
    """None: the core does not know the task; it waits in the database, or is not of this pool.

    `expected`: the forecast, with the probes that it expects; only called if an estimate depends on it.
    """
    found: list[Explanation | None] = []
    for one in asked:
        if isinstance(one, Probe):
            dimensions = Dimensions(dict(state.dimensions.custom))  # a copy: a preview's custom names are not kept
            need = node_resources.need_of(dimensions, 0, one.shape)
            need.share_ppm = node_resources.share_ppm(state, need)
            waiting = Waiting(state, placement, one.task, need, dimensions, now_us, names, expected)
            if one.in_database is not None:
                found.append(_explained(waiting, *waiting.reason_in_database(one.in_database)))
            elif one.after:
                found.append(_explained(waiting, *waiting.reason_blocked()))
            elif one.not_before_us > now_us:
                found.append(_explained(waiting, *waiting.reason_delayed(one.not_before_us)))
            else:
                found.append(_explained(waiting, *waiting.reason()))
            continue
        running, task = state.running.get(one), state.ready.get(one)
        if running is not None:
            found.append(_held(state, one, running, now_us, names))
        elif task is not None:
            need = state.needs[task.shape]
            waiting = Waiting(state, placement, task, need, state.dimensions, now_us, names, expected)
            found.append(_explained(waiting, *waiting.reason()))
        else:
            found.append(None)
    return found


def _explained(waiting: Waiting, reason: Reason, sentence: str, start: Start) -> Explanation:
    position = waiting.position
    return Explanation(
        reason=reason,
        sentence=sentence,
        position=1 + position.mine + position.tenants,
        ahead_of_mine=position.mine,
        tenants_ahead=position.tenants,
        estimated_start_us=start.at_us,
        basis=start.basis,
        run_times=start.run_times,
        start_unknown=start.unknown,
        likely_node=start.node,
        suitable_nodes=waiting.suitable_nodes,
        free_nodes=len(waiting.fitting),
    )


def _held(state: CoreState, task: int, running: Running, now_us: int, names: Names) -> Explanation:
    where = wording.node(names, running.node)
    node = state.nodes.get(running.node)
    if running.granted or node is None:
        sentence = f"it has run on {where} for {wording.span(now_us - running.since_us)}"
        if running.stopping:
            sentence += "; it was asked to give way to more urgent work, and runs again later"
        return Explanation(reason=Reason.RUNNING, sentence=sentence, basis="running", likely_node=running.node)
    before, before_us = 0, 0
    for number, (_, expected) in node.behind.items():
        if number == task:
            break
        before, before_us = before + 1, before_us + expected
    wait = before_us // max(1, width(state.needs[running.shape], node))
    ahead = wording.count(before + len(node.held), "task", "tasks")
    return Explanation(
        reason=Reason.PREFETCHED,
        sentence=f"it is on {where} already and starts there behind {ahead}",
        position=before + 1,
        estimated_start_us=now_us + wait,
        basis="prefetched",
        likely_node=running.node,
    )
