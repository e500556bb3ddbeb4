"""The demand signal for autoscalers: how full the pool is, what tasks ask for, and how many nodes are missing.

Pure and bounded: it considers the ready tasks in memory, the soonest start-by first, and says how many it considered.
Missing nodes are a greedy estimate: present nodes take waiting tasks as running work ends; tasks that would start too
late are packed into new nodes like the largest of the pool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, nsmallest

import msgspec

from rota.decide import wording
from rota.decide.estimates import end_us, likely_us
from rota.decide.node_resources import could_hold, fits, labelled, move
from rota.decide.state import FIXED, WHOLE, CoreState, Need, Node
from rota.model.queue import ReadyTask
from rota.model.resources import Resources

MOST_TASKS = 2_000
MOST_SHAPES = 64
NEVER_US = 1 << 62
MOST_NEW = 200  # a larger number of missing nodes says no more


class ResourceLoad(msgspec.Struct, frozen=True):
    """One resource of the pool. Amounts as the core counts them: milli-CPU, bytes, thousandths of a GPU."""

    name: str
    total: int  # on open nodes
    used: int
    asked: int  # by ready tasks in memory
    utilisation_ppm: int
    asked_of_free_ppm: int | None  # None: nothing is free
    asked_of_total_ppm: int | None  # None: there is none


class Missing(msgspec.Struct, frozen=True):
    """So many more nodes of this capacity would let all considered tasks start in time."""

    nodes: int
    capacity: Resources
    tasks: int  # that would start on them


class Unplaceable(msgspec.Struct, frozen=True):
    """Ready tasks that no node of the pool could hold, even empty."""

    tasks: int
    asks: Resources
    require: dict[str, str]


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    resources: list[ResourceLoad]
    ready: int
    looked_at: int  # ready tasks considered for the missing nodes
    late: int  # considered tasks that would miss their start-by on the present nodes
    missing: list[Missing]
    idle: list[int]  # nodes with nothing to do
    unplaceable: list[Unplaceable]


def demand(state: CoreState, now_us: int) -> Demand:
    # Paused tasks would not start on any node.
    going = [task for task in state.ready.values() if not (state.policy.paused or state.tenants[task.tenant].paused)]
    waiting: dict[int, int] = {}  # shape → ready tasks
    for task in going:
        waiting[task.shape] = waiting.get(task.shape, 0) + 1
    never = {shape: count for shape, count in waiting.items() if not _could_be_held(state, state.needs[shape])}
    soonest = nsmallest(
        MOST_TASKS,
        (task for task in going if task.shape not in never),
        key=lambda task: (task.start_by_us, task.id),
    )
    forecast = _Forecast(state, now_us)
    late = forecast.late(soonest)
    return Demand(
        resources=list(_resources(state, waiting)),
        ready=len(state.ready),
        looked_at=len(soonest),
        late=len(late),
        missing=forecast.missing(late),
        idle=[node.id for node in state.nodes.values() if node.open and not node.held and not node.behind],
        unplaceable=[
            Unplaceable(count, state.shapes[shape].resources, dict(state.shapes[shape].require))
            for shape, count in sorted(never.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_SHAPES]
        ],
    )


def _resources(state: CoreState, waiting: dict[int, int]) -> Iterator[ResourceLoad]:
    asked = [0] * (FIXED + len(state.dimensions.custom))
    for shape, count in waiting.items():
        for dimension, amount in state.needs[shape].amounts:
            asked[dimension] += count * amount
    for dimension, amount in enumerate(asked):
        total = state.total[dimension] if dimension < len(state.total) else 0
        used = state.used[dimension] if dimension < len(state.used) else 0
        if not total and not amount:
            continue
        free = total - used
        yield ResourceLoad(
            name=wording.name_of(state.dimensions, dimension),
            total=total,
            used=used,
            asked=amount,
            utilisation_ppm=used * 1_000_000 // total if total else 0,
            asked_of_free_ppm=amount * 1_000_000 // free if free > 0 else None,
            asked_of_total_ppm=amount * 1_000_000 // total if total else None,
        )


def _could_be_held(state: CoreState, need: Need) -> bool:
    return any(node.here and labelled(need, node) and could_hold(need, node) for node in state.nodes.values())


class _Space:
    """A present or missing node in the forecast. Time passes on each by itself."""

    def __init__(self, node: Node, *, new: bool) -> None:
        self.like = node
        self.free = list(node.total if new else node.free)
        self.devices = [WHOLE] * len(node.devices) if new else list(node.devices)
        self.tasks = 0
        self.full_until_us: dict[int, int] = {}  # shape → it does not fit before; tasks come by their start-by
        self._ends: list[tuple[int, int, Need, tuple[int, ...]]] = []

    def take(self, need: Need) -> tuple[int, ...] | None:
        """The devices it got; None if it does not fit."""
        if not fits(need, self.free, self.devices):
            return None
        devices = [number for number, left in enumerate(self.devices) if left >= (need.gpu_milli or WHOLE)]
        given = tuple(devices[: need.gpus or (1 if need.gpu_milli else 0)])
        move(need, given, self.free, self.devices, -1)
        return given

    def start_by(self, task: ReadyTask, need: Need, likely: int, now_us: int) -> bool:
        """Starts the task here as soon as it fits; False if that is after its start-by."""
        at_us = now_us
        while (devices := self.take(need)) is None:
            if not self._ends or self._ends[0][0] > task.start_by_us:
                self.full_until_us[need.shape] = self._ends[0][0] if self._ends else NEVER_US
                return False
            at_us, _, ended, given = heappop(self._ends)
            move(ended, given, self.free, self.devices)
        self.tasks += 1
        heappush(self._ends, (at_us + likely, task.id, need, devices))
        return True


class _Forecast:
    """What happens if no task arrives: present nodes take waiting tasks, the soonest start-by of a shape first."""

    def __init__(self, state: CoreState, now_us: int) -> None:
        self._state = state
        self._now = now_us
        self._spaces = [_Space(node, new=False) for node in state.nodes.values() if node.open]
        self._ends: list[tuple[int, int, _Space, int, tuple[int, ...]]] = []  # when, task, where, shape, devices
        self._new: list[_Space] = []
        by_node = {space.like.id: space for space in self._spaces}
        for number, running in state.running.items():
            space = by_node.get(running.node)
            if space is not None and running.granted:
                end = (end_us(state, running, now_us), number, space, running.shape, running.devices)
                self._ends.append(end)
        heapify(self._ends)

    def late(self, tasks: list[ReadyTask]) -> list[ReadyTask]:
        """The tasks that don't start in time on the present nodes. `tasks` are sorted by their start-by."""
        queues: dict[int, deque[ReadyTask]] = {}
        for task in tasks:
            if task.shape in queues or len(queues) < MOST_SHAPES:
                queues.setdefault(task.shape, deque()).append(task)
        for space in self._spaces:
            self._fill(space, queues, self._now)
        late: list[ReadyTask] = []
        needs = self._state.needs
        while queues and self._ends:
            at_us, _, space, shape, devices = heappop(self._ends)
            move(needs[shape], devices, space.free, space.devices)
            for name in [name for name, queue in queues.items() if queue[0].start_by_us < at_us]:
                queue = queues[name]
                while queue and queue[0].start_by_us < at_us:
                    late.append(queue.popleft())
                if not queue:
                    del queues[name]
            self._fill(space, queues, at_us)
        late += [task for queue in queues.values() for task in queue]  # no end will let them in
        return sorted(late, key=lambda task: (task.start_by_us, task.id))

    def _fill(self, space: _Space, queues: dict[int, deque[ReadyTask]], at_us: int) -> None:
        for shape in sorted(queues, key=lambda shape: queues[shape][0].start_by_us):
            need, queue = self._state.needs[shape], queues[shape]
            if not labelled(need, space.like):
                continue
            while queue and (devices := space.take(need)) is not None:
                task = queue.popleft()
                heappush(self._ends, (at_us + self._likely(task), task.id, space, shape, devices))
            if not queue:
                del queues[shape]

    def missing(self, late: list[ReadyTask]) -> list[Missing]:
        """Nodes that would start them in time: each task goes to the first node that can, else one more is needed."""
        last_us = late[-1].start_by_us if late else 0
        queues: dict[int, list[_Space]] = {}  # shape → new nodes that may still start some of it in time
        for task in late:
            need, likely = self._state.needs[task.shape], self._likely(task)
            queue = queues.get(task.shape)
            if queue is None:
                queue = queues[task.shape] = [space for space in self._new if labelled(need, space.like)]
            for space in queue:
                if space.full_until_us.get(need.shape, -NEVER_US) <= task.start_by_us and space.start_by(
                    task, need, likely, self._now
                ):
                    break
            else:
                queue[:] = [space for space in queue if space.full_until_us[need.shape] <= last_us]
                self._add(task, need, likely, queues)
        alike: dict[int, list[_Space]] = {}
        for space in self._new:
            alike.setdefault(space.like.id, []).append(space)
        return [
            Missing(len(spaces), spaces[0].like.capacity, sum(space.tasks for space in spaces))
            for _, spaces in sorted(alike.items())
        ]

    def _add(self, task: ReadyTask, need: Need, likely: int, queues: dict[int, list[_Space]]) -> None:
        """Adds a node like the largest that could hold the task. If only a draining node could, none is missing."""
        able = [s.like for s in self._spaces if labelled(need, s.like) and could_hold(need, s.like)]
        if able and len(self._new) < MOST_NEW:
            space = _Space(max(able, key=lambda node: (node.total, -node.id)), new=True)
            space.start_by(task, need, likely, self._now)
            self._new.append(space)
            for shape, queue in queues.items():
                if labelled(self._state.needs[shape], space.like):
                    queue.append(space)

    def _likely(self, task: ReadyTask) -> int:
        return likely_us(self._state, task.tenant, task.work, task.cap_ms * 1000)
