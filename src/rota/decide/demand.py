"""The demand signal for autoscalers: how full the pool is, what tasks ask for, and how many nodes are missing.

Pure and bounded: it considers the ready tasks in memory that more nodes could help, the first to be late first, and
says how many it considered. Missing nodes are a greedy estimate: present nodes take waiting tasks as running work ends;
tasks that would be late, and tasks that no open node could hold, are packed into new nodes. A new node is like the
largest present one that could hold the task; if there is none, it has what the task asks for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, nsmallest

import msgspec

from rota.decide import concurrency_keys, node_resources, wording
from rota.decide.estimates import end_us, likely_us
from rota.decide.node_resources import could_hold, fits, labelled, move
from rota.decide.state import FIXED, WHOLE, CoreState, KeyName, Need, Node
from rota.model.queue import NEVER_US, ReadyTask
from rota.model.resources import Resources

MOST_TASKS = 2_000
MOST_SHAPES = 64
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
    require: dict[str, str] = {}  # labels that no present node of this capacity has


class Unplaceable(msgspec.Struct, frozen=True):
    """Ready tasks that no node of the pool could hold, even empty."""

    tasks: int
    asks: Resources
    require: dict[str, str]


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    resources: list[ResourceLoad]
    ready: int
    looked_at: int  # ready tasks considered for the missing nodes
    late: int  # considered tasks that would be late on the present nodes, by a tolerance that somebody gave
    missing: list[Missing]
    idle: list[int]  # nodes with nothing to do, now or for any task that waits
    unplaceable: list[Unplaceable]


def demand(state: CoreState, now_us: int) -> Demand:
    # Paused tasks would not start on any node.
    going = [task for task in state.ready.values() if not (state.policy.paused or state.tenants[task.tenant].paused)]
    waiting = Counter(task.shape for task in going)
    never = {shape for shape in waiting if not any(_suits(state.needs[shape], node) for node in _here(state))}
    helped = list(_within_limits(state, going))
    open_nodes = [node for node in state.nodes.values() if node.open]
    shapes = [shape for shape, _ in Counter(task.shape for task in helped).most_common()]
    stranded = {shape for shape in shapes if not any(_suits(state.needs[shape], node) for node in open_nodes)}
    considered = _first_to_be_late(task for task in helped if task.shape not in stranded)
    apart = _first_to_be_late(task for task in helped if task.shape in stranded)
    forecast = _Forecast(state, now_us)
    late = forecast.late(considered)
    late_too = [task for task in apart if task.shape not in never and task.leeway_ms is not None]
    return Demand(
        resources=list(_resources(state, waiting)),
        ready=len(state.ready),
        looked_at=len(considered) + len(apart),
        late=len(late) + len(late_too),
        missing=forecast.missing(_first_to_be_late([*late, *apart])),
        idle=[
            node.id
            for node in open_nodes
            if not node.held and not node.behind and not any(_suits(state.needs[shape], node) for shape in shapes)
        ],
        unplaceable=[
            Unplaceable(count, state.shapes[shape].resources, dict(state.shapes[shape].require))
            for shape, count in sorted(waiting.items(), key=lambda pair: (-pair[1], pair[0]))
            if shape in never
        ][:MOST_SHAPES],
    )


def _here(state: CoreState) -> list[Node]:
    return [node for node in state.nodes.values() if node.here]


def _suits(need: Need, node: Node) -> bool:
    return labelled(need, node) and could_hold(need, node)


def _first_to_be_late(tasks: Iterable[ReadyTask]) -> list[ReadyTask]:
    return nsmallest(MOST_TASKS, tasks, key=lambda task: (task.late_us, task.id))


def _within_limits(state: CoreState, tasks: list[ReadyTask]) -> Iterator[ReadyTask]:
    """The tasks that would start if there were nodes enough: no more than tenants, keys and the pool may run now."""
    limit = state.policy.pool_running_limit
    left = len(tasks) if limit is None else limit - len(state.running)
    tenants: dict[int, tuple[int, int, int]] = {}  # those with limits → cores, memory and tasks so far
    keys: Counter[KeyName] = Counter()
    for task in tasks:
        if left <= 0:
            return
        tenant, need = state.tenants[task.tenant], state.needs[task.shape]
        if tenant.limited:
            cpu, memory, running = tenants.get(tenant.id) or (tenant.cpu_milli, tenant.memory_bytes, tenant.running)
            after = (cpu + need.cpu_milli, memory + need.memory_bytes, running + 1)
            limits = (tenant.cpu_milli_limit, tenant.memory_bytes_limit, tenant.running_limit)
            if any(most is not None and amount > most for amount, most in zip(after, limits, strict=True)):
                continue
            tenants[tenant.id] = after
        if task.concurrency_key is not None:
            name = concurrency_keys.name_of(task)
            if not concurrency_keys.is_open(state, task) or keys[name] >= task.concurrency_limit:
                continue
            keys[name] += 1
        left -= 1
        yield task


def _resources(state: CoreState, waiting: Mapping[int, int]) -> Iterator[ResourceLoad]:
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


class _Space:
    """A present or missing node in the forecast. Time passes on each by itself."""

    def __init__(self, node: Node, *, new: bool) -> None:
        self.like = node
        self.free = list(node.total if new else node.free)
        self.devices = [WHOLE] * len(node.devices) if new else list(node.devices)
        self.tasks = 0
        self.full_until_us: dict[int, int] = {}  # shape → it does not fit before; tasks come as they become late
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
        """Starts the task here as soon as it fits; False if it is late by then."""
        at_us = now_us
        while (devices := self.take(need)) is None:
            if not self._ends or self._ends[0][0] > task.late_us:
                self.full_until_us[need.shape] = self._ends[0][0] if self._ends else NEVER_US
                return False
            at_us, _, ended, given = heappop(self._ends)
            move(ended, given, self.free, self.devices)
        self.tasks += 1
        heappush(self._ends, (at_us + likely, task.id, need, devices))
        return True


class _Forecast:
    """What happens if no task arrives: present nodes take waiting tasks, of each shape the first to be late first."""

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
        """The tasks that don't start in time on the present nodes. `tasks` are sorted by when they are late."""
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
            for name in [name for name, queue in queues.items() if queue[0].late_us < at_us]:
                queue = queues[name]
                while queue and queue[0].late_us < at_us:
                    late.append(queue.popleft())
                if not queue:
                    del queues[name]
            self._fill(space, queues, at_us)
        # No end will let the others in.
        return late + [task for queue in queues.values() for task in queue if task.leeway_ms is not None]

    def _fill(self, space: _Space, queues: dict[int, deque[ReadyTask]], at_us: int) -> None:
        for shape in sorted(queues, key=lambda shape: queues[shape][0].late_us):
            need, queue = self._state.needs[shape], queues[shape]
            if not labelled(need, space.like):
                continue
            while queue and (devices := space.take(need)) is not None:
                task = queue.popleft()
                heappush(self._ends, (at_us + self._likely(task), task.id, space, shape, devices))
            if not queue:
                del queues[shape]

    def missing(self, tasks: list[ReadyTask]) -> list[Missing]:
        """Nodes that would start them in time: each task goes to the first node that can, else one more is needed."""
        last_us = tasks[-1].late_us if tasks else 0
        sizes = self._sizes({task.shape for task in tasks})
        queues: dict[int, list[_Space]] = {}  # shape → new nodes that may still start some of it in time
        for task in tasks:
            need, likely = self._state.needs[task.shape], self._likely(task)
            queue = queues.get(task.shape)
            if queue is None:
                queue = queues[task.shape] = [space for space in self._new if labelled(need, space.like)]
            for space in queue:
                if space.full_until_us.get(need.shape, -NEVER_US) <= task.late_us and space.start_by(
                    task, need, likely, self._now
                ):
                    break
            else:
                queue[:] = [space for space in queue if space.full_until_us[need.shape] <= last_us]
                if task.shape in sizes and len(self._new) < MOST_NEW:
                    self._add(_Space(sizes[task.shape], new=True), task, need, likely, queues)
        alike: dict[int, list[_Space]] = {}
        for space in self._new:
            alike.setdefault(space.like.id, []).append(space)
        return [
            Missing(
                len(spaces), spaces[0].like.capacity, sum(space.tasks for space in spaces), self._labels(spaces[0].like)
            )
            for _, spaces in sorted(alike.items())
        ]

    def _add(self, space: _Space, task: ReadyTask, need: Need, likely: int, queues: dict[int, list[_Space]]) -> None:
        space.start_by(task, need, likely, self._now)
        self._new.append(space)
        for shape, queue in queues.items():
            if labelled(self._state.needs[shape], space.like):
                queue.append(space)

    def _sizes(self, shapes: set[int]) -> dict[int, Node]:
        """For each shape the node that one more should be like: the largest suitable one, else one of what it asks for.

        The largest demands come first, so that smaller ones may share their nodes.
        """
        state, here = self._state, _here(self._state)
        sizes: dict[int, Node] = {}
        made: list[Node] = []
        vectors = {shape: state.dimensions.vector(state.shapes[shape].resources) for shape in shapes}
        for shape in sorted(shapes, key=lambda shape: (vectors[shape], -shape), reverse=True)[:MOST_SHAPES]:
            need, demand = state.needs[shape], state.shapes[shape]
            able = [node for node in here if _suits(need, node)] or [node for node in made if _suits(need, node)]
            if not able:
                large = [node.capacity for node in here if could_hold(need, node)]
                capacity = max(large, key=state.dimensions.vector, default=_least(demand.resources))
                number = -1 - len(made)
                able = [node_resources.make_node(state, number, capacity, dict(need.require), draining=False)]
                made += able
            sizes[shape] = max(able, key=lambda node: (node.total, -node.id))
        return sizes

    def _labels(self, like: Node) -> dict[str, str]:
        return {} if like.id in self._state.nodes else like.labels

    def _likely(self, task: ReadyTask) -> int:
        return likely_us(self._state, task.tenant, task.work, task.cap_ms * 1000)


def _least(asked: Resources) -> Resources:
    """The least capacity that holds it: a part of a GPU needs a whole one."""
    return msgspec.structs.replace(asked, gpus=max(asked.gpus, bool(asked.gpu_milli)), gpu_milli=0)
