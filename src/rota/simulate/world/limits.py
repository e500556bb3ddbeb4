"""The auditor's record of limits (of tenants, pools and concurrency keys), cool-downs, operators' pauses and fairness.

Operators change limits while leaders work. A change is enforced at once: a start names the rules it was planned by.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.simulate.world.sometimes import Sometimes
from rota.simulate.world.task_record import DONE, READY, RUNNING, TaskRecord, Violation

FAIR_AFTER_US = 12_000_000
FAIR_STARTS_A_TENANT = 10
OVERTAKEN_US = 30_000_000  # a stall of the leader, and time for small tasks that surely end soon


@dataclass(slots=True)
class Waiting:
    """A task that needs a whole node."""

    since_us: int  # undisturbed since then
    free_us: int  # until then, an attempt was running that ran already at the beginning
    earlier: set[tuple[int, int]]  # the running ones of these attempts


class Limits:
    def __init__(self, sometimes: Sometimes, shapes: dict[int, tuple[int, int]]) -> None:
        self._sometimes = sometimes
        self.shapes = shapes
        self.tasks: dict[int, TaskRecord] = {}
        self.active: dict[int, int] = {}  # task → attempt that holds or may hold resources
        self.limits: dict[tuple[str, int], int | None] = {}  # ("pool" or "tenant", number) → limit
        self.pauses: dict[tuple[str, int], int] = {}  # ("pool", "tenant" or "node", number) → since (µs)
        self.confirmed: set[tuple[str, int]] = set()  # pauses whose operator was told that nothing begins any more
        self.ever_paused: set[tuple[str, int]] = set()
        self.places: dict[tuple[int, str], dict[int, int]] = {}  # (tenant, key) → task → pool
        self._waiting_since: dict[tuple[int, int], int] = {}  # (pool, tenant) without a start yet → since (µs)
        self._waiting_head: dict[tuple[int, int], int] = {}
        self._passed_by: dict[tuple[int, int], int] = {}
        self._began: set[tuple[int, int]] = set()
        self.cooled: dict[tuple[int, str], int] = {}  # (tenant, key) → until (µs)
        self.stream_shapes = (-1, -1)  # of small tasks without end, and of big ones
        self.big_fits = True  # a node is open that could hold a big one
        self.waiting: dict[int, Waiting] = {}  # big tasks that never started

    def limit_set(self, target: tuple[str, int], limit: int | None) -> None:
        """A tenant's or a pool's limit from now on. What runs already goes on."""
        self.limits[target] = limit

    def pause_set(self, target: tuple[str, int], now_us: int, *, paused: bool) -> None:
        """A pool, a tenant or a node is paused or resumed from now on. Starts obey at once, whatever leaders know."""
        self.disturbed(now_us)
        before = self.pauses.pop(target, None)
        if paused:
            self.pauses[target] = now_us if before is None else before
            self.ever_paused.add(target)
            self._sometimes.hit(f"a {target[0]} was paused")
        else:
            self.confirmed.discard(target)

    def pause_confirmed(self, target: tuple[str, int], since_us: int) -> None:
        """An operator was told that nothing of the target begins any more, unless it was resumed meanwhile."""
        if self.pauses.get(target) == since_us:
            self.confirmed.add(target)
            self._sometimes.hit("a pause was confirmed")

    def _check_pauses(self, task: int, record: TaskRecord, node: int, now_us: int) -> None:
        for target in (("pool", record.pool), ("tenant", record.tenant), ("node", node)):
            since = self.pauses.get(target)
            if since is not None:
                seconds = (now_us - since) / 1_000_000
                raise Violation("R50", f"task {task} starts {seconds:.3f} s after {target[0]} {target[1]} was paused")

    def _check_confirmed(self, task: int, record: TaskRecord, node: int) -> None:
        for target in (("pool", record.pool), ("tenant", record.tenant), ("node", node)):
            if target in self.confirmed:
                raise Violation("R50", f"task {task} begins on node {node} although {target[0]} {target[1]} is paused")

    def _check_caps(self, task: int, record: TaskRecord) -> None:
        limit = self.limits.get(("tenant", record.tenant))
        pool_limit = self.limits.get(("pool", record.pool))
        if limit is None and record.concurrency_key is None and pool_limit is None:
            return
        mine = [self.tasks[other] for other in self.active if self.tasks[other].pool == record.pool]
        if pool_limit is not None and len(mine) > pool_limit:
            raise Violation("I14", f"pool {record.pool} runs {len(mine)} of {pool_limit} tasks with task {task}")
        mine = [other for other in mine if other.tenant == record.tenant]
        if limit is not None:
            held = sum(self.shapes[other.shape][0] for other in mine)
            if held > limit:
                raise Violation("I14", f"tenant {record.tenant} holds {held} of {limit} milli-CPU with task {task}")
            if held == limit:
                self._sometimes.hit("a limit was reached")
        key, limit = record.concurrency_key, record.concurrency_limit
        if key is not None:
            mine = [other for other in mine if other.concurrency_global == record.concurrency_global]
            count = sum(other.concurrency_key == key for other in mine)
            if count > limit:
                raise Violation("I14", f"{count} tasks of key {key} at once, {limit} may ({task})")
            if count == limit:
                self._sometimes.hit("a limit was reached")

    def _check_places(self, task: int, record: TaskRecord, now_us: int) -> None:
        """Places of a key counted across pools: counted by rows, not by physical processes."""
        key = record.concurrency_key
        if key is None or not record.concurrency_global:
            return
        holders = self.places.setdefault((record.tenant, key), {})
        if now_us < self.cooled.get((record.tenant, key), 0):
            raise Violation("I14", f"task {task} starts although its key {key} is cooled down")
        holders[task] = record.pool
        for other in list(holders):
            if self.tasks[other].state != RUNNING:
                del holders[other]
        if len(holders) > record.concurrency_limit:
            raise Violation("I14", f"key {key} has {record.concurrency_limit} places in all pools: {sorted(holders)}")
        if len(set(holders.values())) > 1:
            self._sometimes.hit("a key held by two pools")

    def key_cooled(self, tenant: int, key: str, until_us: int) -> None:
        self.cooled[tenant, key] = until_us

    # ---- fairness ---------------------------------------------------------------------------------------------------

    def watch_fairness_anew(self, pool: int, now_us: int) -> None:
        """A new leader reads everything again, so the counts start at zero."""
        self.disturbed(now_us)
        for where in self._waiting_since:
            if where[0] == pool:
                self._waiting_since[where] = now_us
                self._passed_by[where] = 0

    def waits_for_its_first(self, task: int, now_us: int) -> None:
        """Watches the first ready task of a tenant that never started anything in the pool."""
        record = self.tasks[task]
        where = (record.pool, record.tenant)
        plain = record.concurrency_key is None and ("tenant", record.tenant) not in self.limits
        if plain and where not in self._began and where not in self._waiting_since and record.state == READY:
            self._waiting_since[where] = now_us
            self._waiting_head[where] = task
            self._passed_by[where] = 0

    def _check_fairness(self, task: int, record: TaskRecord, now_us: int) -> None:
        """I26: tasks of the same shape that are no more urgent may overtake for a round, not for ever."""
        own = (record.pool, record.tenant)
        self._began.add(own)
        self._waiting_since.pop(own, None)
        for where, since in self._waiting_since.items():
            head = self.tasks[self._waiting_head[where]]
            if where[0] != record.pool or head.state != READY or now_us - since < FAIR_AFTER_US:
                continue
            if ("tenant", where[1]) in self.ever_paused:
                continue
            if head.shape == record.shape and head.lane <= record.lane and record.attempt == 1:
                self._passed_by[where] += 1
                if self._passed_by[where] > FAIR_STARTS_A_TENANT * (1 + len(self._waiting_since)):
                    raise Violation(
                        "I26",
                        f"task {self._waiting_head[where]}, tenant {where[1]}'s first, was passed by "
                        f"{self._passed_by[where]} times, now by task {task}",
                    )

    # ---- big tasks --------------------------------------------------------------------------------------------------

    def watch_waiting(self, task: int, now_us: int) -> None:
        """A task that needs a whole node was admitted, or its owner changed it: its wait counts from now."""
        if self.tasks[task].shape == self.stream_shapes[1] and not self.tasks[task].attempt:
            self.waiting[task] = Waiting(now_us, now_us, set(self.active.items()))

    def disturbed(self, now_us: int) -> None:
        """A leader, a node, a pool or a tenant changed: all waits count from now."""
        for task in self.waiting:
            self.watch_waiting(task, now_us)

    def _check_waiting(self, task: int, record: TaskRecord, now_us: int) -> None:
        """I26: once the attempts that ran when a big task came have ended, small ones start before it for a while only.

        Off-peak tasks do not count: they wait while the pool is busy.
        """
        if self.waiting.pop(task, None) is not None:
            self.disturbed(now_us)  # another big task is the first one now
        for big, wait in list(self.waiting.items()):
            waiting = self.tasks[big]
            if waiting.state >= DONE:
                del self.waiting[big]
                continue
            wait.earlier &= self.active.items()
            if wait.earlier or not self.big_fits:
                wait.free_us = now_us
            small = record.shape == self.stream_shapes[0] and waiting.lane <= min(record.lane, 2)
            if small and waiting.state == READY:
                self._sometimes.hit("a small task started before a big one")
                if now_us - wait.free_us > wait.free_us - wait.since_us + OVERTAKEN_US:
                    seconds = (now_us - wait.since_us) // 1_000_000
                    raise Violation("I26", f"task {big} needs a whole node and waits for {seconds} s; {task} starts")
