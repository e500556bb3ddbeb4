"""When ready tasks will start: a copy of the core plans on in virtual time, with the run times that are known.

So an estimate follows every rule that the plan follows: lanes, shares, limits, keys, reservations, the peak mark. It
assumes that no other task arrives and no node joins or leaves. A task of which nothing is known never ends in it: what
waits for that has no estimate. The original is never touched; the number of starts is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import msgspec

from rota.decide import concurrency_keys, node_resources, planning, ready
from rota.decide.estimates import HISTORY, SOURCES, Expected, expected_end, expected_run
from rota.decide.forecasts.copied_state import copied
from rota.decide.grants import Grants
from rota.decide.messages import Preempt
from rota.decide.placement import Placement
from rota.decide.state import CoreState
from rota.model.queue import NEVER_US, ReadyTask
from rota.model.resources import Shape

MOST_STARTS = 1_000
MOST_ROUNDS = 300  # instants at which the copy plans
AT_MOST = 200  # decisions of one plan
PRECISION = (
    32  # what happens within this part of the time that has passed counts as one instant: a plan costs a millisecond
)
_ATTEMPT_ENDS, _TASK_COMES, _KEY_WARMS, _TIME_PASSES = range(4)  # also their order at one instant


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A task that the core does not know: one of a preview, or one that waits for others or for a time."""

    task: ReadyTask
    shape: Shape
    after: tuple[int, ...] = ()  # tasks, known to the core or planned, that must end first
    not_before_us: int = 0
    longest_cap_us: int = NEVER_US  # of its tenant's plan, because the tenant may be new to the core as well


class Told(msgspec.Struct, frozen=True):
    """When and where a task starts, and the worst of the sources of the run times behind it."""

    at_us: int
    source: str | None  # None: it depends on no run time
    node: int


@dataclass(slots=True)
class Forecast:
    starts: dict[int, Told] = field(default_factory=dict)
    ends: dict[int, Expected] = field(default_factory=dict)
    unknown: dict[int, None] = field(default_factory=dict)  # started, and nothing is known of their run time
    cut_off: bool = False  # it has as many starts as allowed: what is not in it starts later
    skipped: bool = False  # it was not made: others are being made, and a leader has more to do
    until_us: int = 0  # how far it went
    ready: dict[int, None] = field(default_factory=dict)  # when it began

    def knew(self, state: CoreState, asked: Iterable[object]) -> bool:
        """Whether the tasks that are ready now were ready when it began."""
        return all(one in self.ready for one in asked if isinstance(one, int) and one in state.ready)


def forecast(state: CoreState, now_us: int, planned: Sequence[Planned] = ()) -> Forecast:
    play = Play(state, now_us, planned)
    while not play.advance():
        pass
    return play.found


class Play:
    """A forecast that is made in slices, because all of it can take longer than an event loop may be busy."""

    def __init__(self, original: CoreState, now_us: int, planned: Sequence[Planned] = ()) -> None:
        self._state = state = copied(original)
        self._began_us = self._now = now_us
        self._placement = Placement(state)
        self._grants = Grants(state, self._placement)
        self.found = Forecast(until_us=now_us, ready=dict.fromkeys(state.ready))
        self._events: list[tuple[int, int, int, str]] = []  # when, what, which, the source of an end
        self._worst = -1  # the worst source of the ends so far, as an index
        self._began: dict[int, ReadyTask] = {}
        self._behind: dict[int, list[int]] = {}  # node → tasks that wait there
        self._waits: dict[int, int] = {}  # planned task → how many tasks it waits for
        self._next: dict[int, list[Planned]] = {}  # task → those that wait for it
        self._planned: dict[int, Planned] = {}
        self._cooled: list[tuple[int, str]] = []
        self._rounds = 0
        self._set_up(planned)

    def advance(self, rounds: int = MOST_ROUNDS) -> bool:
        """Plays at most so many instants. Whether `found` is complete."""
        for _ in range(rounds):
            self._plan()
            self._rounds += 1
            self.found.until_us = self._now
            if len(self.found.starts) >= MOST_STARTS or self._rounds >= MOST_ROUNDS:
                self.found.cut_off = True
                return True
            if not self._events or not (self._state.ready or self._waits):
                return True
            self._step()
        return False

    # ---- the beginning ----------------------------------------------------------------------------------------------

    def _set_up(self, planned: Sequence[Planned]) -> None:
        state, now_us = self._state, self._now
        for number, running in state.running.items():
            if running.granted:
                self._expect(number, expected_end(state, running, now_us))
        for node in state.nodes.values():
            if node.behind:
                self._behind[node.id] = list(node.behind)
        for name, until_us in state.cooled.items():
            self._cooled.append(name)
            heappush(self._events, (max(until_us, now_us + 1), _KEY_WARMS, len(self._cooled) - 1, ""))
        if state.urgent_seen_us is not None and state.policy.urgent_kept_ppm:
            over_us = state.urgent_seen_us + state.policy.urgent_memory_us + 1
            if over_us > now_us:
                heappush(self._events, (over_us, _TIME_PASSES, 0, ""))
        shapes: dict[bytes, int] = {}
        planned = [one for one in planned if one.task.id not in state.ready and one.task.id not in state.running]
        for one in planned:
            self._planned[one.task.id] = one
            for parent in one.after:
                self._next.setdefault(parent, []).append(one)
            if one.after:
                self._waits[one.task.id] = len(one.after)
        for one in planned:
            text = msgspec.json.encode(one.shape, order="deterministic")
            if text not in shapes:
                known = next((number for number, shape in state.shapes.items() if shape == one.shape), None)
                shapes[text] = -1 - len(shapes) if known is None else known  # run times of a known one are learned
                if known is None:
                    self._learn_shape(shapes[text], one.shape)
            self._planned[one.task.id] = msgspec.structs.replace(
                one, task=msgspec.structs.replace(one.task, shape=shapes[text])
            )
            if not one.after:
                self._come(self._planned[one.task.id])

    def _learn_shape(self, number: int, shape: Shape) -> None:
        state = self._state
        state.shapes[number] = shape
        state.needs[number] = need = node_resources.need_of(state.dimensions, number, shape)
        need.share_ppm = node_resources.share_ppm(state, need)

    def _come(self, one: Planned) -> None:
        """The task is ready, or will be when its time has come."""
        if one.not_before_us > self._now:
            self._waits[one.task.id] = 0
            heappush(self._events, (one.not_before_us, _TASK_COMES, one.task.id, ""))
        else:
            self._waits.pop(one.task.id, None)
            if one.task.tenant not in self._state.tenants:
                ready.tenant_of(self._state, one.task.tenant).longest_cap_us = one.longest_cap_us
            ready.add(self._state, one.task)

    # ---- one instant ------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Starts what can start now."""
        if self._state.policy.paused:
            return
        state, now_us = self._state, self._now
        while len(self.found.starts) < MOST_STARTS:
            decisions = planning.plan(state, self._placement, self._grants, now_us, AT_MOST)
            for decision in decisions:
                if isinstance(decision, Preempt):
                    self._give_way(decision.task)
                    continue
                task = self._began[decision.task.id] = decision.task
                if decision.behind:
                    self._behind.setdefault(decision.node, []).append(task.id)
                else:
                    self._start(task.id)
            if not decisions:
                return

    def _start(self, number: int) -> None:
        state, running = self._state, self._state.running[number]
        source = None if self._worst < 0 else SOURCES[self._worst]
        if number in self._began and number not in self.found.starts:
            self.found.starts[number] = Told(self._now, source, running.node)
        length = expected_run(state, running.tenant, running.work, running.shape, running.cap_us)
        if length is None:
            self.found.unknown[number] = None
        else:
            self._expect(number, Expected(self._now + max(1, length.us), length.source))

    def _expect(self, number: int, end: Expected) -> None:
        self.found.ends[number] = end
        heappush(self._events, (end.us, _ATTEMPT_ENDS, number, end.source))

    def _give_way(self, number: int) -> None:
        """A preempted attempt ends at once; only a task that began in the forecast runs again in it."""
        node = self._state.running[number].node
        self.found.ends.pop(number, None)
        self._end(number, node)
        task = self._began.get(number)
        if task is not None:
            again = msgspec.structs.replace(task, version=task.version + 1)
            self._began[number] = again
            ready.add(self._state, again)

    def _step(self) -> None:
        """The next instant, with all that happens in it. It ends with the last event that it takes in."""
        until_us = self._events[0][0] + max(0, self._events[0][0] - self._began_us) // PRECISION
        while self._events and self._events[0][0] <= until_us:
            at_us, what, which, source = heappop(self._events)
            self._now = max(self._now, at_us)
            if what == _ATTEMPT_ENDS:
                running = self._state.running.get(which)
                expected = self.found.ends.get(which)
                if running is None or expected is None or expected.us != at_us:
                    continue  # it gave way
                self._worst = max(self._worst, SOURCES.index(source or HISTORY))
                self._end(which, running.node)
                for child in self._next.get(which, ()):
                    self._waits[child.task.id] -= 1
                    if not self._waits[child.task.id]:
                        self._come(self._planned[child.task.id])
            elif what == _TASK_COMES:
                self._come(self._planned[which])
            elif what == _KEY_WARMS:
                left = {name: at for name, at in self._state.cooled.items() if name != self._cooled[which]}
                self._grants.wake(concurrency_keys.cool(self._state, left))
            else:
                ready.open_all(self._state)

    def _end(self, number: int, node: int) -> None:
        everywhere = self._state.running[number].concurrency_global
        self._grants.end(number, None, self._now, refused=everywhere)  # the place of a key is given back at once
        queue = self._behind.get(node)
        if queue and number in queue:
            queue.remove(number)
        while queue and (running := self._state.running.get(queue[0])) is not None and running.granted:
            self._start(queue.pop(0))
