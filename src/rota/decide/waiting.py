"""The reasons for which a queued task waits, in the order in which the planner meets them.

Each has a sentence with numbers, in which other tenants are only counted, and the start that the forecast tells, or why
it tells none. `explain.py` asks.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rota.decide import concurrency_keys, limits, node_resources, queue_position, ready, wording
from rota.decide.forecasts.forecast import PRECISION, Forecast
from rota.decide.forecasts.throughput import LEAST_ENDS
from rota.decide.grants import URGENT_RANK
from rota.decide.node_resources import capacity_of, could_hold, held_ppm, labelled
from rota.decide.placement import Placement
from rota.decide.reason import Reason
from rota.decide.state import GPU, WHOLE, CoreState, Dimensions, Need, Node, Tenant
from rota.decide.wording import Names
from rota.model.node import Closed
from rota.model.queue import ReadyTask
from rota.model.units import bytes_text

_AMOUNTS: dict[str, Callable[[int], str]] = {
    "cores": lambda amount: f"{amount / 1000:g}",
    "memory": lambda amount: f"{bytes_text(amount)}B",
    "running tasks": str,
}
ASK_AGAIN = "many estimates are asked for at the moment; ask again in a few seconds"
NO_RUN_TIMES = (
    "nothing is known of how long tasks before it run: none of their name has ended here, and nobody gave them a cap"
)


class Start(msgspec.Struct, frozen=True):
    """When a task probably starts, or why nobody can say when."""

    at_us: int | None
    basis: str
    node: int | None = None
    run_times: str | None = None
    unknown: str = ""


def unknown(why: str) -> Start:
    return Start(None, "unknown", unknown=why)


Answer = tuple[Reason, str, Start]


class Waiting:
    """One queued task, and the facts that several reasons need."""

    def __init__(
        self,
        state: CoreState,
        placement: Placement,
        task: ReadyTask,
        need: Need,
        dimensions: Dimensions,
        now_us: int,
        names: Names,
        expected: Callable[[], Forecast],
    ) -> None:
        self._state = state
        self._placement = placement
        self._dimensions = dimensions
        self._task = task
        self._need = need
        self._now = now_us
        self._names = names
        self._expected = expected
        self._tenant = state.tenants.get(task.tenant) or Tenant(task.tenant, key=state.floor_key)
        self._rank = ready.rank_of(state, task.lane)
        self._here = [node for node in state.nodes.values() if node.here]
        self.position = queue_position.position_of(state, task, self._tenant)
        self.fitting = queue_position.fitting_nodes(state, need)

    @property
    def suitable_nodes(self) -> int:
        return sum(1 for node in self._here if labelled(self._need, node) and could_hold(self._need, node))

    def reason(self) -> Answer:
        """Of a task that may start as soon as resources are free."""
        return (
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

    def reason_in_database(self, ahead: int) -> Answer:
        """Of a task that is not in memory. The sentence is empty, unless an obstacle is known."""
        return self._obstacle() or (Reason.IN_DATABASE, "", self._by_pace(ahead))

    def reason_blocked(self) -> Answer:
        """Of a task that waits for others. The sentence is empty, unless an obstacle is known."""
        return self._obstacle() or (Reason.BLOCKED, "", self._start("parents"))

    def reason_delayed(self, not_before_us: int) -> Answer:
        """Of a task that waits for its time, and starts then unless the forecast says that others still run."""
        start = self._start()
        if start.at_us is not None and start.at_us - not_before_us <= (not_before_us - self._now) // PRECISION:
            start = Start(not_before_us, "its-time", start.node)
        return self._obstacle() or (Reason.DELAYED, "", start)

    def _obstacle(self) -> Answer | None:
        """What keeps it from starting wherever it stands in the queue."""
        return self._paused() or self._never() or self._above_its_limit()

    # ---- reasons, in the order in which they are asked ------------------------------------------------------------

    def _paused(self) -> Answer | None:
        if self._state.policy.paused:
            sentence = "an operator has paused the pool: nothing new starts until it is resumed"
            return Reason.POOL_PAUSED, sentence, unknown("nothing starts before the pool is resumed")
        if self._tenant.paused:
            sentence = "an operator has paused your tenant: nothing new of it starts until it is resumed"
            return Reason.TENANT_PAUSED, sentence, unknown("nothing of your tenant starts before it is resumed")
        return None

    def _never(self) -> Answer | None:
        need, here = self._need, self._here
        if not here:
            joins = unknown("it starts after a node has joined the pool, and nobody knows when")
            return Reason.NO_NODES, "no node of the pool is connected", joins
        elastic = self._state.policy.elastic
        suited = [node for node in here if labelled(need, node)]
        if not suited:
            labels = ", ".join(f"{name}={value}" for name, value in need.require)
            grow = "; the pool has to grow by such a node" if elastic else ""
            sentence = f"no node has the labels it requires: {labels}{grow}"
            return Reason.NO_SUCH_LABEL, sentence, unknown("it starts after a node with these labels has joined")
        could = [node for node in suited if could_hold(need, node)]
        if not could:
            return self._too_large(suited, elastic=elastic)
        if not any(node.open for node in could):
            slug, sentence = wording.closed([node.closed_for or Closed.DRAINING for node in could])
            opens = unknown("it starts after one of these nodes takes new work again, or another one has joined")
            return Reason(slug), sentence, opens
        return None

    def _too_large(self, suited: list[Node], *, elastic: bool) -> Answer:
        size = ", ".join(wording.amount(self._dimensions, *each) for each in self._need.amounts)
        joins = unknown(f"it starts after a node with at least {size} has joined the pool")
        short = self._short(suited)
        if elastic:
            sentence = f"no present node could hold it: {short}; the pool has to grow by a node with at least {size}"
        else:
            sentence = f"no node could ever hold it: {short}"
        return Reason.UNPLACEABLE, sentence, joins

    def _short(self, nodes: list[Node]) -> str:
        dimensions = self._dimensions
        for dimension, asked in self._need.amounts:
            most = max(_at(node.total, dimension) for node in nodes)
            if most < asked:
                has = f"the most any node has is {wording.plain(dimension, most)}" if most else "no node has any"
                return f"it asks for {wording.amount(dimensions, dimension, asked)}, {has}"
        return "each amount is there on some node, but all of them on none"

    def _pool_limit(self) -> Answer | None:
        limit, running = self._state.policy.pool_running_limit, len(self._state.running)
        if limit is None or running < limit:
            return None
        sentence = f"the pool runs {running:,} of the {limit:,} tasks it may"
        return Reason.POOL_LIMIT, sentence, self._start("running-tasks")

    def _reserved(self) -> Answer | None:
        kept = next((r for r in self._state.reservations.values() if r.task == self._task.id), None)
        if kept is None:
            return None
        where = wording.node(self._names, kept.node)
        if kept.preempting:
            start = Start(max(self._now, kept.at_us), "preemption", kept.node)
            sentence = f"others were asked to give way to it on {where}; it starts when they have left"
            return Reason.PREEMPTING, sentence, start
        start = self._start("reservation")
        when = "" if start.at_us is None else f", in about {wording.span(start.at_us - self._now)}"
        return Reason.RESERVED, f"no node has room for it now; {where} is reserved for it{when}", start

    def _key_busy(self) -> Answer | None:
        task = self._task
        if concurrency_keys.is_open(self._state, task):
            return None
        assert task.concurrency_key is not None
        until_us = self._state.cooled.get((task.tenant, task.concurrency_key))
        if until_us is not None:
            left = wording.span(until_us - self._now)
            sentence = f"its concurrency key {task.concurrency_key} is cooled down for another {left}"
            return Reason.KEY_COOLED, sentence, self._start("cool-down")
        key, most = self._state.keys[concurrency_keys.name_of(task)], task.concurrency_limit
        if not task.concurrency_global:
            busy = (
                f"{key.running} of {most} run" if key.running <= most else f"{key.running} run, its own limit is {most}"
            )
            sentence = f"its concurrency key {task.concurrency_key} is busy: {busy}"
            return Reason.KEY_BUSY, sentence, self._start("concurrency-key")
        sentence = (
            f"its concurrency key {task.concurrency_key} is busy across pools: of {most} places "
            f"{key.running} are held here and {key.elsewhere} elsewhere"
        )
        if key.elsewhere:
            return Reason.KEY_BUSY, sentence, unknown("only the other pools know when their tasks with its key end")
        return Reason.KEY_BUSY, sentence, self._start("concurrency-key")

    def _tenant_limit(self) -> Answer | None:
        for resource, used, more, limit in self._limits():
            if limit is None or used + more <= limit:
                continue
            text = _AMOUNTS[resource]
            sentence = f"your tenant is at its limit of {resource}: {text(used)} of {text(limit)} in use"
            if more > limit:
                alone = f"this task alone needs {text(more)}"
                never = unknown(
                    f"{alone}, more than your plan lets your tenant use at once: it starts if that is raised"
                )
                return Reason.TENANT_LIMIT, f"{sentence}, and {alone}", never
            needs = "" if resource == "running tasks" else f", this task needs {text(more)}"
            return Reason.TENANT_LIMIT, sentence + needs, self._start("own-tasks")
        return None

    def _above_its_limit(self) -> Answer | None:
        """The task alone is more than its tenant may use at once."""
        return (
            self._tenant_limit()
            if any(limit is not None and more > limit for *_, more, limit in self._limits())
            else None
        )

    def _limits(self) -> tuple[tuple[str, int, int, int | None], ...]:
        """(resource, used, more, limit)"""
        tenant, need = self._tenant, self._need
        return (
            ("cores", tenant.cpu_milli, need.cpu_milli, tenant.cpu_milli_limit),
            ("memory", tenant.memory_bytes, need.memory_bytes, tenant.memory_bytes_limit),
            ("running tasks", tenant.running, 1, tenant.running_limit),
        )

    def _gated(self) -> Answer | None:
        if not ready.is_gated(self._rank):
            return None
        state, policy = self._state, self._state.policy
        if not state.peak and not limits.would_exceed_peak(state, self._need):
            return None
        mark = policy.peak_ppm - policy.peak_slack_ppm if state.peak else policy.peak_ppm
        load, below = wording.percent(node_resources.utilisation_ppm(state)), wording.percent(mark)
        sentence = f"its lane waits until the pool is less than {below} in use; it is {load}"
        return Reason.OFF_PEAK, sentence, self._start("load")

    def _kept_for_urgent(self) -> Answer | None:
        state, policy = self._state, self._state.policy
        if self._rank == URGENT_RANK or not self.fitting or not limits.keeps_for_urgent(state, self._now):
            return None
        dimension = limits.kept_dimension(state, self._need)
        if dimension is None:
            return None
        share = wording.percent(policy.urgent_kept_ppm)
        free = wording.amount(self._dimensions, dimension, state.total[dimension] - state.used[dimension])
        sentence = f"{share} of the pool is kept for urgent work, and only {free} is free"
        return Reason.KEPT_FOR_URGENT, sentence, self._start("load")

    def _urgent_enough(self) -> Answer | None:
        tenant, need = self._tenant, self._need
        if self._rank != URGENT_RANK or not limits.over_urgent_share(self._state, tenant, need):
            return None
        held, most = wording.percent(tenant.urgent_held_ppm), wording.percent(tenant.urgent_ppm)
        if need.share_ppm > tenant.urgent_ppm:
            alone = wording.percent(need.share_ppm)
            sentence = (
                f"this task alone needs {alone} of the pool, and your tenant's urgent tasks may hold {most} while "
                "others wait: it counts as normal work"
            )
        else:
            sentence = (
                f"your tenant's urgent tasks hold {held} of the pool, {most} at most: the rest counts as normal work"
            )
        return Reason.URGENT_SHARE, sentence + self._behind_others(), self._start()

    def _no_room(self) -> Answer | None:
        if self.fitting:
            return None
        short = self._short_now()
        if self.position.tenants and self._over_share():
            return Reason.SHARE, f"{short}, and {self._others()}", self._start()
        return Reason.NO_FREE_RESOURCES, short + self._behind_others(), self._start()

    def _in_queue(self) -> Answer:
        """It fits on a node: other tasks come first, or it starts in a moment."""
        kept = [r for r in self._state.reservations.values() if any(node.id == r.node for node in self.fitting)]
        if kept and len(self.fitting) <= len({r.node for r in kept}):
            sentence = "the free resources are reserved for a task that has waited longer"
            return Reason.RESOURCES_RESERVED, sentence + self._behind_others(), self._start("after-reserved")
        if self.position.tenants:
            return Reason.SHARE, self._others(), self._start()
        if self.position.mine:
            mine = wording.count(self.position.mine, "task of yours is", "tasks of yours are")
            return Reason.IN_QUEUE, f"{mine} ahead of it", self._start()
        nodes = wording.count(len(self.fitting), "node has", "nodes have")
        return Reason.SOON, f"{nodes} room: it is about to start", self._start()

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
        tenants = wording.count(self.position.tenants, "other tenant comes", "other tenants come")
        mine = f"; {wording.count(self.position.mine, 'task', 'tasks')} of yours too" if self.position.mine else ""
        return f"{tenants} first, having been served less or having more urgent work{mine}"

    def _behind_others(self) -> str:
        parts = []
        if self.position.mine:
            parts.append(wording.count(self.position.mine, "task of yours", "tasks of yours"))
        if self.position.tenants:
            parts.append(wording.count(self.position.tenants, "other tenant", "other tenants"))
        return f"; ahead of it: {' and '.join(parts)}" if parts else ""

    # ---- when -------------------------------------------------------------------------------------------------------

    def _start(self, basis: str = "running-tasks") -> Start:
        expected = self._expected()
        told = expected.starts.get(self._task.id)
        if told is not None:
            at_once = told.at_us <= self._now
            at_us = max(told.at_us, self._now)
            return Start(at_us, "free-now" if at_once else basis, told.node, told.source)
        if expected.skipped:
            return unknown(ASK_AGAIN)
        if expected.cut_off:
            return self._by_pace(self.position.mine)
        if expected.unknown:
            return unknown(NO_RUN_TIMES)
        return unknown("no end of running work that can be foreseen lets it start")

    def _by_pace(self, ahead: int) -> Start:
        """From the pace of its tenant's queue: attempts that ended lately, else what the forecast starts."""
        state, tenant = self._state, self._task.tenant
        lately_us = state.ended.time_for(tenant, ahead + 1, self._now)
        if lately_us is not None:
            return Start(self._now + lately_us, "throughput")
        expected = self._expected()
        if expected.skipped:
            return unknown(ASK_AGAIN)
        own = [
            told
            for number, told in expected.starts.items()
            if (task := state.ready.get(number)) is not None and task.tenant == tenant
        ]
        span_us = expected.until_us - self._now
        goes_on = expected.cut_off or not expected.unknown  # else it stops at a task of unknown length
        if goes_on and len(own) >= LEAST_ENDS and span_us > 0:
            return Start(self._now + (ahead + 1) * span_us // len(own), "throughput", None, own[-1].source)
        return unknown(
            "none of your tasks has ended in the last minutes, and nothing is known of how long those before it run"
        )


def _at(vector: list[int], dimension: int) -> int:
    return vector[dimension] if dimension < len(vector) else 0


def _whole(node: Node) -> int:
    return WHOLE * node.devices.count(WHOLE)
