"""Why a task waits: a slug, a sentence with numbers, and an estimate of when it starts.

The reasons are the planner's own, in the order in which it meets them. Pure reading: nothing in the core changes. Other
tenants appear as numbers only.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rota.decide import concurrency_keys, limits, node_resources, queue_position, ready, wording
from rota.decide.estimates import end_us
from rota.decide.grants import URGENT_RANK
from rota.decide.node_resources import could_hold, labelled
from rota.decide.placement import Placement, width
from rota.decide.queue_position import UNKNOWN, Start
from rota.decide.state import CPU, GPU, MEMORY, WHOLE, CoreState, Dimensions, Need, Node, Running, Tenant
from rota.decide.wording import Names
from rota.model.node import Closed
from rota.model.queue import ReadyTask
from rota.model.resources import Shape
from rota.model.units import bytes_text

_AMOUNTS: dict[str, Callable[[int], str]] = {
    "cores": lambda amount: f"{amount / 1000:g}",
    "memory": lambda amount: f"{bytes_text(amount)}B",
    "running tasks": str,
}


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    reason: str  # a stable slug
    sentence: str
    position: int | None = None  # in the queue, from 1: behind own tasks and other tenants
    ahead_of_mine: int | None = None  # tasks of its own tenant before it
    tenants_ahead: int | None = None
    estimated_start_us: int | None = None
    basis: str = "unknown"  # of the estimate
    likely_node: int | None = None
    suitable_nodes: int | None = None  # could hold it when empty
    free_nodes: int | None = None  # fit it now


class Probe(msgspec.Struct, frozen=True):
    """A task that does not exist yet, for a preview: its shape and its tenant may be new to the core."""

    task: ReadyTask
    shape: Shape


def explain(
    state: CoreState, placement: Placement, asked: int | Probe, now_us: int, names: Names
) -> Explanation | None:
    """None: the core does not know the task; it waits in the database, or is not of this pool."""
    if isinstance(asked, int):
        running = state.running.get(asked)
        if running is not None:
            return _held(state, asked, running, now_us, names)
        task = state.ready.get(asked)
        if task is None:
            return None
        return _Waiting(state, placement, task, state.needs[task.shape], state.dimensions, now_us, names).explanation()
    dimensions = Dimensions(dict(state.dimensions.custom))  # a copy: a preview's custom names are not kept
    need = node_resources.need_of(dimensions, 0, asked.shape)
    need.share_ppm = node_resources.share_ppm(state, need)
    return _Waiting(state, placement, asked.task, need, dimensions, now_us, names).explanation()


def _held(state: CoreState, task: int, running: Running, now_us: int, names: Names) -> Explanation:
    where = wording.node(names, running.node)
    node = state.nodes.get(running.node)
    if running.granted or node is None:
        sentence = f"it has run on {where} for {wording.span(now_us - running.since_us)}"
        if running.stopping:
            sentence += "; it was asked to give way to more urgent work, and runs again later"
        return Explanation(reason="running", sentence=sentence, basis="running", likely_node=running.node)
    before, before_us = 0, 0
    for number, (_, expected) in node.behind.items():
        if number == task:
            break
        before, before_us = before + 1, before_us + expected
    wait = before_us // max(1, width(state.needs[running.shape], node))
    ahead = wording.count(before + len(node.held), "task", "tasks")
    return Explanation(
        reason="prefetched",
        sentence=f"it is on {where} already and starts there behind {ahead}",
        position=before + 1,
        estimated_start_us=now_us + wait,
        basis="prefetched",
        likely_node=running.node,
    )


class _Waiting:
    """One ready task, and the facts that several reasons need."""

    def __init__(
        self,
        state: CoreState,
        placement: Placement,
        task: ReadyTask,
        need: Need,
        dimensions: Dimensions,
        now_us: int,
        names: Names,
    ) -> None:
        self._state = state
        self._placement = placement
        self._dimensions = dimensions
        self._task = task
        self._need = need
        self._now = now_us
        self._names = names
        self._tenant = state.tenants.get(task.tenant) or Tenant(task.tenant, key=state.floor_key)
        self._rank = ready.rank_of(state, task.lane)
        self._position = queue_position.position_of(state, task, self._tenant)
        self._fitting = queue_position.fitting_nodes(state, need)
        self._here = [node for node in state.nodes.values() if node.here]

    def explanation(self) -> Explanation:
        reason, sentence, start = (
            self._paused()
            or self._never()
            or self._pool_limit()
            or self._reserved()
            or self._key_busy()
            or self._tenant_limit()
            or self._gated()
            or self._kept_for_urgent()
            or self._urgent_enough()
            or self._no_room()
            or self._in_queue()
        )
        could = sum(1 for node in self._here if labelled(self._need, node) and could_hold(self._need, node))
        return Explanation(
            reason=reason,
            sentence=sentence,
            position=1 + self._position.mine + self._position.tenants,
            ahead_of_mine=self._position.mine,
            tenants_ahead=self._position.tenants,
            estimated_start_us=start.at_us,
            basis=start.basis,
            likely_node=start.node,
            suitable_nodes=could,
            free_nodes=len(self._fitting),
        )

    # ---- reasons, in the order in which they are asked ------------------------------------------------------------

    def _paused(self) -> tuple[str, str, Start] | None:
        if self._state.policy.paused:
            sentence = "an operator has paused the pool: nothing new starts until it is resumed"
            return "pool-paused", sentence, UNKNOWN
        if self._tenant.paused:
            sentence = "an operator has paused your tenant: nothing new of it starts until it is resumed"
            return "tenant-paused", sentence, UNKNOWN
        return None

    def _never(self) -> tuple[str, str, Start] | None:
        need, here = self._need, self._here
        if not here:
            return "no-nodes", "no node of the pool is connected", UNKNOWN
        suited = [node for node in here if labelled(need, node)]
        if not suited:
            labels = ", ".join(f"{name}={value}" for name, value in need.require)
            return "no-such-label", f"no node has the labels it requires: {labels}", UNKNOWN
        could = [node for node in suited if could_hold(need, node)]
        if not could:
            return "unplaceable", f"no node could ever hold it: {self._short(suited)}", UNKNOWN
        if not any(node.open for node in could):
            return *wording.closed([node.closed_for or Closed.DRAINING for node in could]), UNKNOWN
        return None

    def _short(self, nodes: list[Node]) -> str:
        dimensions = self._dimensions
        for dimension, asked in self._need.amounts:
            most = max(_at(node.total, dimension) for node in nodes)
            if most < asked:
                has = f"the most any node has is {wording.plain(dimension, most)}" if most else "no node has any"
                return f"it asks for {wording.amount(dimensions, dimension, asked)}, {has}"
        return "each amount is there on some node, but all of them on none"

    def _pool_limit(self) -> tuple[str, str, Start] | None:
        limit, running = self._state.policy.pool_running_limit, len(self._state.running)
        if limit is None or running < limit:
            return None
        return "pool-limit", f"the pool runs {running:,} of the {limit:,} tasks it may", self._start()

    def _reserved(self) -> tuple[str, str, Start] | None:
        kept = next((r for r in self._state.reservations.values() if r.task == self._task.id), None)
        if kept is None:
            return None
        where = wording.node(self._names, kept.node)
        if kept.preempting:
            start = Start(max(self._now, kept.at_us), "preemption", kept.node)
            return "preempting", f"others were asked to give way to it on {where}; it starts when they have left", start
        at_us = max(self._now, kept.at_us)
        sentence = (
            f"no node has room for it now; {where} is reserved for it, in about {wording.span(at_us - self._now)}"
        )
        return "reserved", sentence, Start(at_us, "reservation", kept.node)

    def _key_busy(self) -> tuple[str, str, Start] | None:
        task = self._task
        if concurrency_keys.is_open(self._state, task):
            return None
        assert task.concurrency_key is not None
        until_us = self._state.cooled.get((task.tenant, task.concurrency_key))
        if until_us is not None:
            left = wording.span(until_us - self._now)
            sentence = f"its concurrency key {task.concurrency_key} is cooled down for another {left}"
            return "key-cooled", sentence, Start(max(self._now, until_us), "cool-down")
        key = self._state.keys[concurrency_keys.name_of(task)]
        start = queue_position.start_after_key(self._state, task, self._now)
        if not task.concurrency_global:
            sentence = f"its concurrency key {task.concurrency_key} is busy: {key.running} of {key.limit} run"
            return "key-busy", sentence, start
        sentence = (
            f"its concurrency key {task.concurrency_key} is busy across pools: of {task.concurrency_limit} places "
            f"{key.running} are held here and {key.elsewhere} elsewhere"
        )
        return "key-busy", sentence, start

    def _tenant_limit(self) -> tuple[str, str, Start] | None:
        tenant, need = self._tenant, self._need
        for resource, used, more, limit in (
            ("cores", tenant.cpu_milli, need.cpu_milli, tenant.cpu_milli_limit),
            ("memory", tenant.memory_bytes, need.memory_bytes, tenant.memory_bytes_limit),
            ("running tasks", tenant.running, 1, tenant.running_limit),
        ):
            if limit is None or used + more <= limit:
                continue
            text = _AMOUNTS[resource]
            sentence = f"your tenant is at its limit of {resource}: {text(used)} of {text(limit)} in use"
            if more > limit:
                return "tenant-limit", f"{sentence}, and this task alone needs {text(more)}", UNKNOWN
            needs = "" if resource == "running tasks" else f", this task needs {text(more)}"
            return "tenant-limit", sentence + needs, self._start_after_mine()
        return None

    def _gated(self) -> tuple[str, str, Start] | None:
        if not ready.is_gated(self._rank):
            return None
        state, policy = self._state, self._state.policy
        if not state.peak and not limits.would_exceed_peak(state, self._need):
            return None
        mark = policy.peak_ppm - policy.peak_slack_ppm if state.peak else policy.peak_ppm
        load, below = wording.percent(node_resources.utilisation_ppm(state)), wording.percent(mark)
        sentence = f"its lane waits until the pool is less than {below} in use; it is {load}"
        # Every resource must be below `mark`, and with the task not above the peak mark.
        most = {
            dimension: max(0, total * mark // 1_000_000 - 1) for dimension, total in enumerate(state.total) if total
        }
        for dimension, amount in self._need.amounts:
            if dimension in most:
                beside = state.total[dimension] * policy.peak_ppm // 1_000_000 - amount
                most[dimension] = max(0, min(most[dimension], beside))
        return "off-peak", sentence, queue_position.start_beside(state, most, self._now)

    def _kept_for_urgent(self) -> tuple[str, str, Start] | None:
        state, policy = self._state, self._state.policy
        if self._rank == URGENT_RANK or not self._fitting or not limits.keeps_for_urgent(state, self._now):
            return None
        dimension = limits.kept_dimension(state, self._need)
        if dimension is None:
            return None
        total, amount = state.total[dimension], dict(self._need.amounts)[dimension]
        kept = total * policy.urgent_kept_ppm // 1_000_000
        share = wording.percent(policy.urgent_kept_ppm)
        free = wording.amount(self._dimensions, dimension, total - state.used[dimension])
        sentence = f"{share} of the pool is kept for urgent work, and only {free} is free"
        start = queue_position.start_beside(state, {dimension: total - kept - amount}, self._now)
        return "kept-for-urgent", sentence, start

    def _urgent_enough(self) -> tuple[str, str, Start] | None:
        tenant = self._tenant
        if self._rank != URGENT_RANK or not limits.over_urgent_share(self._state, tenant, self._need):
            return None
        held, most = wording.percent(tenant.urgent_held_ppm), wording.percent(tenant.urgent_ppm)
        sentence = f"your tenant's urgent tasks hold {held} of the pool, {most} at most: the rest counts as normal work"
        return "urgent-share", sentence + self._behind_others(), self._start()

    def _no_room(self) -> tuple[str, str, Start] | None:
        if self._fitting:
            return None
        short = self._short_now()
        if self._position.tenants and self._over_share():
            return "share", f"{short}, and {self._others()}", self._start()
        return "no-free-resources", short + self._behind_others(), self._start()

    def _in_queue(self) -> tuple[str, str, Start]:
        """It fits on a node: other tasks come first, or it starts in a moment."""
        kept = [r for r in self._state.reservations.values() if any(node.id == r.node for node in self._fitting)]
        if kept and len(self._fitting) <= len({r.node for r in kept}):
            sentence = "the free resources are reserved for a task that has waited longer"
            start = queue_position.start_after_kept(self._state, self._fitting, self._now)
            return "resources-reserved", sentence + self._behind_others(), start
        if self._position.tenants:
            return "share", self._others(), self._start()
        if self._position.mine:
            mine = wording.count(self._position.mine, "task of yours is", "tasks of yours are")
            return "in-queue", f"{mine} ahead of it", self._start()
        nodes = wording.count(len(self._fitting), "node has", "nodes have")
        return "soon", f"{nodes} room: it is about to start", self._start()

    # ---- parts of sentences -----------------------------------------------------------------------------------------

    def _short_now(self) -> str:
        """The resource that is short now, and the node with the most of it."""
        need = self._need
        nodes = [node for node in self._here if node.open and labelled(need, node) and could_hold(need, node)]
        for dimension, asked in need.amounts:
            if dimension == GPU:
                most, node = max((_whole(n) if need.gpus else max(n.devices, default=0), -n.id) for n in nodes)
            else:
                most, node = max((_at(n.free, dimension), -n.id) for n in nodes)
            if most < asked:
                free = wording.amount(self._dimensions, dimension, asked)
                if not most:
                    return f"no node has {free} free; none has any left"
                where = wording.node(self._names, -node)
                return f"no node has {free} free; the most is {wording.plain(dimension, most)} on {where}"
        return "each amount is free on some node, but all of them on none"

    def _over_share(self) -> bool:
        """Whether the tenant holds more of the pool than its weight among the tenants with tasks."""
        state, own = self._state, self._tenant
        weights = sum(t.weight for t in state.tenants.values() if t.ready or t.running)
        return held_ppm(own, capacity_of(state)) * max(1, weights) > 1_000_000 * own.weight

    def _others(self) -> str:
        tenants = wording.count(self._position.tenants, "other tenant comes", "other tenants come")
        mine = f"; {wording.count(self._position.mine, 'task', 'tasks')} of yours too" if self._position.mine else ""
        return f"{tenants} first, having been served less or having more urgent work{mine}"

    def _behind_others(self) -> str:
        parts = []
        if self._position.mine:
            parts.append(wording.count(self._position.mine, "task of yours", "tasks of yours"))
        if self._position.tenants:
            parts.append(wording.count(self._position.tenants, "other tenant", "other tenants"))
        return f"; ahead of it: {' and '.join(parts)}" if parts else ""

    # ---- when -------------------------------------------------------------------------------------------------------

    def _start(self) -> Start:
        return queue_position.start_of(
            self._state, self._placement, self._task, self._need, self._position, self._fitting, self._now
        )

    def _start_after_mine(self) -> Start:
        ends = [
            end_us(self._state, running, self._now)
            for running in self._state.running.values()
            if running.tenant == self._task.tenant
        ]
        if not ends:
            return UNKNOWN
        ends.sort()
        return Start(ends[min(self._position.mine, len(ends) - 1)], "own-tasks")


def capacity_of(state: CoreState) -> tuple[int, int]:
    """Cores and memory of all nodes, draining ones too: their grants still count."""
    nodes = state.nodes.values()
    return sum(node.total[CPU] for node in nodes), sum(node.total[MEMORY] for node in nodes)


def held_ppm(tenant: Tenant, capacity: tuple[int, int]) -> int:
    """The tenant's dominant share of the pool now; at most all of it, even if prefetched work would exceed that."""
    cpu, memory = capacity
    held = max(
        tenant.cpu_milli * 1_000_000 // cpu if cpu else 0, tenant.memory_bytes * 1_000_000 // memory if memory else 0
    )
    return min(held, 1_000_000)


def _at(vector: list[int], dimension: int) -> int:
    return vector[dimension] if dimension < len(vector) else 0


def _whole(node: Node) -> int:
    return WHOLE * node.devices.count(WHOLE)
