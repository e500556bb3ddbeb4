"""The door of the core: `apply(event, now)` keeps the books, `plan(now, at_most)` decides.

Deterministic and synchronous: the same events give the same decisions, on any machine, under any hash seed. The
leader and the simulator are two callers of this one class. Nothing here waits, logs or looks at a clock.
"""

from __future__ import annotations

from rota.decide import placement, ready
from rota.decide.messages import (
    AttemptEnded,
    AttemptHeld,
    Event,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    ShapeKnown,
    Start,
    StartRefused,
    TasksGone,
    TasksReady,
    TenantKnown,
)
from rota.decide.state import CoreState, Node, Running, Tenant
from rota.model.queue import ReadyTask
from rota.model.resources import Shape

MOST_LEARNED = 50_000


class Core:
    def __init__(self) -> None:
        self.state = CoreState()

    # ---- bookkeeping ----------------------------------------------------------------------------------------------

    def apply(self, event: Event, now_us: int) -> None:
        """Takes one fact in. Never decides anything: `plan` does, at its own pace."""
        state = self.state
        match event:
            case TasksReady(tasks):
                for task in tasks:
                    ready.add(state, task)
            case AttemptEnded(number, run_us):
                self._end(number, run_us)
            case StartRefused(number):
                self._end(number, None)
            case TasksGone(gone):
                for number in gone:
                    ready.remove(state, number)
            case NodeJoined(node, capacity, labels, draining):
                self._join(Node(node, capacity, labels, not draining, capacity))
            case NodeDraining(node):
                if node in state.nodes:
                    state.nodes[node].open = False
            case NodeLeft(node):
                self._leave(node)
            case ShapeKnown(shape, demand):
                state.shapes[shape] = demand
            case TenantKnown():
                tenant = ready.tenant_of(state, event.tenant)
                tenant.weight = event.weight
                tenant.cpu_milli_limit = event.cpu_milli_limit
                tenant.memory_bytes_limit = event.memory_bytes_limit
            case AttemptHeld(attempt):
                self._hold(
                    attempt.task,
                    Running(attempt.tenant, attempt.shape, attempt.node, attempt.work,
                            attempt.concurrency_key, granted=True),
                    attempt.concurrency_limit,
                )  # fmt: skip

    # ---- deciding -------------------------------------------------------------------------------------------------

    def plan(self, now_us: int, at_most: int) -> list[Start]:
        """The next starts, in order, at most so many.

        1. Lanes by rank. 2. Within a lane, tenants in turn, one task each. 3. The tenant's own first task. 4. A node
        with room for it. 5. Else a place behind short work. 6. A shape that found neither waits for the next pass.
        """
        starts: list[Start] = []
        for lane in sorted(self.state.rotation):
            self._plan_lane(lane, at_most, starts)
            if len(starts) >= at_most:
                break
        return starts

    def _plan_lane(self, lane: int, at_most: int, starts: list[Start]) -> None:
        ring = self.state.rotation[lane]
        full: set[int] = set()  # shapes no node can take, not even behind; holds for every tenant in this pass
        stuck: dict[int, set[int]] = {}  # tenant → shapes it may not start now: its own limit, or unknown run time
        skipped = 0  # tenants in a row that could start nothing
        while ring and len(starts) < at_most and skipped < len(ring):
            tenant = self.state.tenants[ring[0]]
            closed = stuck.get(tenant.id)
            task = ready.head(self.state, tenant, lane, full if closed is None else full | closed)
            if task is None:
                if tenant.lanes.get(lane):
                    ring.rotate(-1)
                    skipped += 1
                else:
                    ring.popleft()
                continue
            start = self._start(task, tenant)
            if start is None:
                if self._over_limit(tenant, self.state.shapes[task.shape]) or self._expected_us(task) is None:
                    stuck.setdefault(tenant.id, set()).add(task.shape)
                else:
                    full.add(task.shape)
                continue
            starts.append(start)
            ring.rotate(-1)
            skipped = 0

    def _start(self, task: ReadyTask, tenant: Tenant) -> Start | None:
        shape = self.state.shapes[task.shape]
        if self._over_limit(tenant, shape):
            return None
        node = placement.pick(self.state.nodes.values(), shape, task=task.id)
        behind = node is None
        if node is None:
            expected_us = self._expected_us(task)
            if expected_us is None:
                return None
            node = placement.pick_behind(self.state.nodes.values(), shape, expected_us=expected_us)
            if node is None:
                return None
        ready.take(self.state, task)
        running = Running(task.tenant, task.shape, node.id, task.work, task.concurrency_key, granted=not behind)
        self._hold(task.id, running, task.concurrency_limit)
        return Start(task, node.id, behind)

    def _over_limit(self, tenant: Tenant, shape: Shape) -> bool:
        demand = shape.resources
        cpu, memory = tenant.cpu_milli_limit, tenant.memory_bytes_limit
        return (cpu is not None and tenant.cpu_milli + demand.cpu_milli > cpu) or (
            memory is not None and tenant.memory_bytes + demand.memory_bytes > memory
        )

    def _expected_us(self, task: ReadyTask) -> int | None:
        """How long such work holds its node, learned; None when nothing is known, or it is too long to queue behind."""
        mean = self.state.run_us.get((task.tenant, task.work))
        if mean is None or mean > placement.AHEAD_US:
            return None
        return mean + placement.OVERHEAD_US

    # ---- grants ---------------------------------------------------------------------------------------------------

    def _hold(self, task: int, running: Running, concurrency_limit: int) -> None:
        state = self.state
        ready.remove(state, task)
        state.running[task] = running
        demand = state.shapes[running.shape].resources
        tenant = ready.tenant_of(state, running.tenant)
        tenant.cpu_milli += demand.cpu_milli
        tenant.memory_bytes += demand.memory_bytes
        ready.hold_key(state, running.tenant, running.concurrency_key, concurrency_limit)
        node = state.nodes.get(running.node)
        if node is None:
            return  # its node has not come back yet; `_join` finds the attempt
        if running.granted and demand.fits_in(node.free):
            self._grant(node, task, running)
        else:
            expected = state.run_us.get((running.tenant, running.work), 0) + placement.OVERHEAD_US
            self._put_behind(node, task, running, expected)

    def _grant(self, node: Node, task: int, running: Running) -> None:
        running.granted = True
        node.held[task] = running.shape
        node.free = node.free.minus(self.state.shapes[running.shape].resources)
        mean = self.state.run_us.get((running.tenant, running.work))
        if mean is None or mean > placement.AHEAD_US:
            node.slow.add(task)

    def _put_behind(self, node: Node, task: int, running: Running, expected_us: int) -> None:
        running.granted = False
        node.behind[task] = (running.shape, expected_us)
        node.behind_us += expected_us

    def _end(self, task: int, run_us: int | None) -> None:
        state = self.state
        running = state.running.pop(task, None)
        if running is None:
            return
        demand = state.shapes[running.shape].resources
        tenant = state.tenants[running.tenant]
        tenant.cpu_milli -= demand.cpu_milli
        tenant.memory_bytes -= demand.memory_bytes
        ready.release_key(state, running.tenant, running.concurrency_key)
        if run_us is not None:
            self._learn(running, run_us)
        node = state.nodes.get(running.node)
        if node is None:
            return
        if node.held.pop(task, None) is not None:
            node.free = node.free.plus(demand)
            node.slow.discard(task)
            self._grant_behind(node)
        elif task in node.behind:
            node.behind_us -= node.behind.pop(task)[1]
        if not node.open and not node.held and not node.behind:
            del state.nodes[node.id]  # it left, and nothing of it is left here
            self._grant_behind(node)  # it may have stood in the way of smaller ones

    def _grant_behind(self, node: Node) -> None:
        """Room was freed: the node starts what waits there, in order."""
        while node.behind:
            task, (shape, expected) = next(iter(node.behind.items()))
            if not self.state.shapes[shape].resources.fits_in(node.free):
                return
            del node.behind[task]
            node.behind_us -= expected
            self._grant(node, task, self.state.running[task])

    def _leave(self, number: int) -> None:
        node = self.state.nodes.get(number)
        if node is not None:
            node.open = False
            if not node.held and not node.behind:
                del self.state.nodes[number]

    def _join(self, node: Node) -> None:
        """A node (again): its room is what its running attempts leave. A smaller node keeps them behind."""
        state = self.state
        state.nodes[node.id] = node
        for task, running in state.running.items():
            if running.node == node.id:
                if state.shapes[running.shape].resources.fits_in(node.free):
                    self._grant(node, task, running)
                else:
                    self._put_behind(node, task, running, placement.OVERHEAD_US)

    def _learn(self, running: Running, run_us: int) -> None:
        learned = self.state.run_us
        key = (running.tenant, running.work)
        mean = learned.get(key)
        learned[key] = run_us if mean is None else (7 * mean + run_us) // 8
        if len(learned) > MOST_LEARNED:
            for old in list(learned)[: MOST_LEARNED // 2]:
                del learned[old]
