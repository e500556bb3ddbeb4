"""The database as the statements Rota asks of it: one method for each statement, on plain rows in memory.

A statement runs whole and at once; what happens before and after it (latency, lost replies, locks) is in `store.py`.
Each change is told to the auditor in plain numbers. Some planted bugs live here: those in which a statement is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rota import planted
from rota.model.clock import from_us, to_us
from rota.simulate.world.auditor import Auditor
from rota.simulate.world.rows import (
    BLOCKED,
    CANCELLED,
    DELAYED,
    DONE,
    FAILED,
    LANES,
    POOLS,
    READY,
    RUNNING,
    Edge,
    Lease,
    Queued,
    Row,
    Task,
)
from rota.simulate.world.sometimes import Sometimes
from rota.store.statements import sql


class Tables:
    def __init__(self, auditor: Auditor, sometimes: Sometimes, now_us: Callable[[], int]) -> None:
        self._auditor = auditor
        self._sometimes = sometimes
        self.now_us = now_us
        self.tasks: dict[int, Task] = {}
        self.queue: dict[int, Queued] = {}
        self.ended: dict[int, int] = {}  # task → final state
        self.edges: dict[tuple[int, int], Edge] = {}
        self.children: dict[int, list[int]] = {}
        self.parents: dict[int, list[int]] = {}
        self.keys: dict[tuple[int, bytes], tuple[bytes, int]] = {}
        self.flights: dict[object, bool] = {}
        self.leases: dict[int, Lease] = {}
        self.nodes: dict[tuple[int, str], int] = {}
        self.draining: set[int] = set()
        self.tenants: dict[int, tuple[int, int | None, int | None]] = {}
        self.dead_letters: dict[int, str] = {}
        self.reruns: dict[int, int] = {}
        self.shares: dict[int, tuple[dict[int, float], int]] = {}
        self.process = ""  # whose statement this is, for the auditor
        self.wall_us = 0  # what the client's own clock says
        self.fenced_before: bool | None = None  # what a check without a lock saw when the statement arrived
        self.fence: tuple[int, int] | None = None  # (pool, epoch) of the transaction that runs
        named = {
            name: getattr(self, f"_{name}")
            for name in (
                "end_old_leader", "acquire_lease", "renew_lease", "release_lease", "start_attempts", "find_started",
                "load_ready", "load_due", "next_timers", "active_tenants", "load_running", "load_cancelling",
                "children_to_release", "settle_done", "lock_attempts", "end_tasks", "requeue_tasks", "resolve_edges",
                "read_fates", "release_tasks", "drop_edges", "cancel_waiting", "cancel_running", "register_node",
                "rerun_task",
            )
        }  # fmt: skip
        self._statements: dict[str, Callable[..., list[Any]]] = {sql(name): run for name, run in named.items()}
        self._inline: tuple[tuple[str, Callable[..., list[Any]]], ...] = (
            ("select clock_timestamp()", lambda: [(from_us(self.now_us()),)]),
            ("select 1 from leases", lambda pool, epoch, holder: [(1,)] if self._fenced(pool, epoch, holder) else []),
            ("select from queue", lambda *_: []),
            (
                "select id from nodes where pool = $1 and name",
                lambda pool, name: [(self.nodes[pool, name],)] if (pool, name) in self.nodes else [],
            ),
            ("insert into reruns", self._claim_rerun),
            ("select rerun from reruns", lambda task: [(self.reruns[task],)]),
            ("delete from dead_letters where task", self._drop_dead_letter),
            ("insert into queue", self._queue_rerun),
            ("select rank, name, level, gated, promotes from lanes", lambda: LANES),
            ("select id, name, elastic, peak_percent", lambda: POOLS),
            ("select id from nodes where pool = $1 and state", lambda pool: [Row(id=n) for n in sorted(self.draining)]),
            ("select tenant, charged", self._read_shares),
            ("delete from shares", lambda *_: []),
            ("insert into shares", self._save_shares),
        )

    def run(self, text: str, arguments: Sequence[Any]) -> list[Any]:
        statement = self._statements.get(text)
        if statement is None:
            for beginning, inline in self._inline:
                if text.startswith(beginning):
                    return inline(*arguments)
            raise AssertionError(f"a statement this world does not know: {text[:120]}")
        return statement(*arguments)

    # ---- leases -----------------------------------------------------------------------------------------------------

    def fence_holds(self, pool: int, epoch: int, holder: object) -> bool:
        lease = self.leases.get(pool)
        return lease is not None and lease.epoch == epoch and lease.holder == holder

    def _fenced(self, pool: int, epoch: int, holder: object) -> bool:
        holds = self.fence_holds(pool, epoch, holder)
        if planted.ACTIVE and planted.has("no-epoch-check"):
            holds = True
        if planted.ACTIVE and planted.has("epoch-checked-without-lock") and self.fenced_before is not None:
            holds = self.fenced_before
        if not holds:
            self._sometimes.hit("fenced write rejected")
        self.fence = (pool, epoch)
        return holds

    def _end_old_leader(self, pool: int, holder: object) -> list[Any]:
        return []  # `store.py` does this to open statements

    def _acquire_lease(self, pool: int, holder: object, seconds: Any, above: int) -> list[Any]:
        lease = self.leases.setdefault(pool, Lease())
        now = self.now_us()
        clock = self.wall_us if planted.ACTIVE and planted.has("app-clock-for-expiry") else now
        if not (lease.expires_us < clock or lease.holder == holder):
            return []
        last = lease.epoch
        lease.epoch = max(last + 1, 0 if planted.ACTIVE and planted.has("token-without-timeline") else now, above + 1)
        lease.holder = holder
        lease.expires_us = clock + int(seconds.total_seconds() * 1_000_000)
        self._auditor.lease_acquired(pool, lease.epoch, self.process, now, now + int(seconds.total_seconds() * 1e6))
        return [(lease.epoch,)]

    def _renew_lease(self, pool: int, epoch: int, holder: object, seconds: Any) -> list[Any]:
        lease = self.leases[pool]
        now = self.now_us()
        clock = self.wall_us if planted.ACTIVE and planted.has("app-clock-for-expiry") else now
        if lease.epoch != epoch or lease.holder != holder or lease.expires_us <= clock:
            return []
        lease.expires_us = clock + int(seconds.total_seconds() * 1_000_000)
        self._auditor.lease_renewed(pool, epoch, now + int(seconds.total_seconds() * 1e6))
        return [(epoch,)]

    def _release_lease(self, pool: int, epoch: int, holder: object) -> list[Any]:
        lease = self.leases[pool]
        if lease.epoch == epoch and lease.holder == holder:
            lease.expires_us = self.now_us()
            self._auditor.lease_renewed(pool, epoch, lease.expires_us)
        return []

    # ---- starting ---------------------------------------------------------------------------------------------------

    def _start_attempts(
        self, pool: int, epoch: int, holder: object, ids: list[int], versions: list[int], nodes: list[int],
        boots: list[int], graces: list[int],
    ) -> list[Any]:  # fmt: skip
        if not self._fenced(pool, epoch, holder):
            return []
        now = self.now_us()
        started = []
        for number, version, node, boot, grace in zip(ids, versions, nodes, boots, graces, strict=True):
            row = self.queue.get(number)
            if row is None or row.version != version or row.pool != pool:
                continue
            if row.state != READY and not (row.state == DELAYED and (row.wake_us or 0) <= now):
                continue
            row.state, row.wake_us = RUNNING, None
            row.attempt += 1
            row.version += 1
            row.node, row.boot, row.epoch, row.grace_ms, row.started_us = node, boot, epoch, grace, now
            self._auditor.started(number, row.version, row.attempt, node, boot, pool, epoch, now)
            started.append((number, row.attempt, 1, "work", "{}", row.task.key, None))
        return started

    def _find_started(
        self, epoch: int, ids: list[int], versions: list[int], nodes: list[int], boots: list[int]
    ) -> list[Any]:
        found = []
        for number, version, node, boot in zip(ids, versions, nodes, boots, strict=True):
            row = self.queue.get(number)
            if row is not None and row.version > version and (row.state, row.epoch, row.node, row.boot) == (
                RUNNING, epoch, node, boot,
            ):  # fmt: skip
                found.append((number, row.attempt, 1, "work", "{}", row.task.key, None))
        return found

    # ---- reading ----------------------------------------------------------------------------------------------------

    def ready_row(self, row: Queued) -> Row:
        task = row.task
        due = row.wake_us is not None and row.wake_us <= self.now_us()
        return Row(
            id=row.id, tenant=row.tenant, lane=row.lane, urgency=-task.priority, start_by=from_us(row.start_by_us),
            cap_ms=task.cap_ms, shape=task.shape, work=task.work, version=row.version,
            concurrency_key=task.concurrency_key, concurrency_limit=task.concurrency_limit, state=row.state, due=due,
            wake_at=None if row.wake_us is None else from_us(row.wake_us), preemptible=task.preemptible,
        )  # fmt: skip

    def _load_ready(
        self, pool: int, tenants: list[int], lanes: list[int], urgencies: list[int], start_bys: list[Any],
        caps: list[int], ids: list[int], amounts: list[int],
    ) -> list[Any]:  # fmt: skip
        by_tenant: dict[int, list[Queued]] = {}
        for row in self.queue.values():
            if row.state == READY and row.pool == pool:
                by_tenant.setdefault(row.tenant, []).append(row)
        found: list[Any] = []
        for index, tenant in enumerate(tenants):
            rows = by_tenant.get(tenant)
            if rows:
                cursor = (lanes[index], urgencies[index], to_us(start_bys[index]), caps[index], ids[index])
                past = sorted((row for row in rows if row.order() > cursor), key=Queued.order)
                if len(past) > amounts[index]:
                    self._sometimes.hit("ready set spilled")
                found += [self.ready_row(row) for row in past[: amounts[index]]]
        return found

    def _load_due(self, pool: int, tenants: list[int], since: list[Any], amount: int) -> list[Any]:
        now = self.now_us()
        due = [
            row for row in self.queue.values()
            if row.wake_us is not None and row.wake_us <= now and row.pool == pool and row.state in (DELAYED, READY)
        ]  # fmt: skip
        if not due:
            return []
        due.sort(key=lambda row: (row.wake_us, row.id))
        return [self.ready_row(row) for tenant in tenants for row in [r for r in due if r.tenant == tenant][:amount]]

    def _next_timers(self, pool: int, tenants: list[int]) -> list[Any]:
        now = self.now_us()
        first: dict[int, int] = {}
        for row in self.queue.values():
            if row.wake_us is not None and row.wake_us > now and row.pool == pool:
                first[row.tenant] = min(first.get(row.tenant, row.wake_us), row.wake_us)
        return [Row(tenant=tenant, seconds=(first[tenant] - now) / 1e6) for tenant in tenants if tenant in first]

    def _active_tenants(self, pool: int) -> list[Any]:
        active = sorted({row.tenant for row in self.queue.values() if row.pool == pool})
        return [(tenant, *self.tenants[tenant], None, 50) for tenant in active]

    def _load_running(self, pool: int) -> list[Any]:
        return [
            Row(
                id=row.id, attempt=row.attempt, tenant=row.tenant, shape=row.task.shape, node=row.node, boot=row.boot,
                grace_ms=row.grace_ms, work=row.task.work, concurrency_key=row.task.concurrency_key,
                concurrency_limit=row.task.concurrency_limit, cancel_requested=row.cancel_requested,
                cap_ms=row.task.cap_ms, lane=row.lane, preemptible=row.task.preemptible,
                started_at=from_us(row.started_us),
            )
            for row in self.queue.values()
            if row.pool == pool and row.state == RUNNING
        ]  # fmt: skip

    def _read_shares(self, pool: int) -> list[Any]:
        charged, saved_us = self.shares.get(pool, ({}, 0))
        return [Row(tenant=tenant, charged=amount, saved_at=from_us(saved_us)) for tenant, amount in charged.items()]

    def _save_shares(self, pool: int, tenants: list[int], charged: list[float]) -> list[Any]:
        self.shares[pool] = (dict(zip(tenants, charged, strict=True)), self.now_us())
        return []

    def _load_cancelling(self, pool: int) -> list[Any]:
        return [
            Row(id=row.id, attempt=row.attempt)
            for row in self.queue.values()
            if row.cancel_requested and row.state == RUNNING and row.pool == pool
        ]

    def _children_to_release(self, pool: int, after: int, limit: int) -> list[Any]:
        found = {
            edge.child for edge in self.edges.values()
            if edge.parent_state is not None and edge.child_pool == pool and edge.child > after
        }  # fmt: skip
        return [(child,) for child in sorted(found)[:limit]]

    # ---- settling ---------------------------------------------------------------------------------------------------

    def _current(self, number: int, attempt: int, boot: int) -> Queued | None:
        row = self.queue.get(number)
        if row is None or row.state != RUNNING:
            return None
        if planted.ACTIVE and planted.has("late-result-accepted"):
            return row
        return row if row.attempt == attempt and row.boot == boot else None

    def _settle_done(
        self, pool: int, epoch: int, holder: object, ids: list[int], attempts: list[int], boots: list[int], *_: Any
    ) -> list[Any]:
        if not self._fenced(pool, epoch, holder):
            return [Row(fenced=0, tasks=[])]
        tasks = []
        for number, attempt, boot in zip(ids, attempts, boots, strict=True):
            row = self._current(number, attempt, boot)
            if row is None:
                self._sometimes.hit("result superseded")
                continue
            if row.cancel_requested:
                self._sometimes.hit("cancel lost to success")
            self._end(row, row.attempt, DONE, 1)
            tasks.append(number)
        return [Row(fenced=1, tasks=tasks)]

    def _lock_attempts(self, ids: list[int], attempts: list[int], boots: list[int]) -> list[Any]:
        now = from_us(self.now_us())
        found = []
        for number, attempt, boot in zip(ids, attempts, boots, strict=True):
            row = self._current(number, attempt, boot)
            if row is None:
                self._sometimes.hit("result superseded")
                continue
            found.append(
                Row(
                    id=number, attempt=row.attempt, tenant=row.tenant, node=row.node, used=row.used,
                    losses=row.losses, attempts=row.task.attempts, cancel_requested=row.cancel_requested,
                    lane=row.lane, start_by=from_us(row.start_by_us), backoff_ms=row.task.backoff_ms,
                    backoff_limit_ms=row.task.backoff_limit_ms, now=now,
                )
            )  # fmt: skip
        return found

    def _end(self, row: Queued, number: int, state: int, outcome: int, reason: str | None = None) -> None:
        del self.queue[row.id]
        self.ended[row.id] = state
        if state == FAILED:
            self.dead_letters[row.id] = reason or ""
            if (reason or "").startswith("poison"):
                self._sometimes.hit("poison to dead letter")
        self._auditor.ended(row.id, number, state, outcome, self.fence, reason or "")

    def _end_tasks(
        self, ids: list[int], numbers: list[int], states: list[int], outcomes: list[int], run: Any, cpu: Any,
        memory: Any, codes: Any, failures: Any, reasons: list[str | None], *_: Any,
    ) -> list[Any]:  # fmt: skip
        found = []
        for index, number in enumerate(ids):
            row = self.queue.get(number)
            if row is not None:
                self._end(row, numbers[index], int(states[index]), int(outcomes[index]), reasons[index])
                found.append(Row(id=number))
        return found

    def _requeue_tasks(
        self, ids: list[int], numbers: list[int], outcomes: list[int], used: list[int], losses: list[int],
        wakes: list[Any], lanes: list[int], *_: Any,
    ) -> list[Any]:  # fmt: skip
        found = []
        for index, number in enumerate(ids):
            row = self.queue.get(number)
            if row is None:
                continue
            wake = wakes[index]
            row.state = READY if wake is None else DELAYED
            row.version += 1
            row.used, row.losses, row.lane = used[index], losses[index], int(lanes[index])
            row.wake_us = None if wake is None else to_us(wake)
            row.node = row.boot = row.epoch = None
            self._auditor.requeued(
                number, numbers[index], int(outcomes[index]), row.state, row.version, row.used, row.losses, row.wake_us,
                self.now_us(), self.fence,
            )  # fmt: skip
            found.append(self.ready_row(row))
        return found

    def _resolve_edges(self, parents: list[int], state: int) -> list[Any]:
        found = []
        for parent in parents:
            for child in self.children.get(parent, ()):
                edge = self.edges.get((parent, child))
                if edge is not None and edge.parent_state is None:
                    edge.parent_state = int(state)
                    found.append(Row(child=child, child_pool=edge.child_pool))
        return found

    def _read_fates(self, children: list[int], pool: int) -> list[Any]:
        twice = planted.ACTIVE and planted.has("child-released-twice")
        found = []
        for child in sorted(children):
            row = self.queue.get(child)
            if row is None or row.pool != pool or (row.state != BLOCKED and not twice):
                continue
            edges = [edge for parent in self.parents.get(child, ()) if (edge := self.edges.get((parent, child)))]
            if not edges:
                continue
            told = [edge for edge in edges if edge.parent_state is not None]
            if len(told) > 1 and len(told) == len(edges):
                self._sometimes.hit("fan-in race")
            culprits = [edge for edge in told if edge.parent_state != DONE and edge.upstream == 1]
            first = min(culprits, key=lambda edge: edge.parent, default=None)
            found.append(
                Row(
                    id=child, waits=len(told) < len(edges), culprit=first.parent if first else None,
                    culprit_state=first.parent_state if first else None,
                )
            )  # fmt: skip
        return found

    def _release_tasks(self, ids: list[int]) -> list[Any]:
        twice = planted.ACTIVE and planted.has("child-released-twice")
        if not twice:
            self._drop_edges(ids)
        now = self.now_us()
        found = []
        for number in ids:
            row = self.queue.get(number)
            if row is None or (row.state != BLOCKED and not twice):
                continue
            later = row.task.not_before_us is not None and row.task.not_before_us > now
            row.state = DELAYED if later else READY
            row.version += 1
            row.start_by_us = max(row.start_by_us, now + row.task.tolerance_ms * 1000)
            row.wake_us = row.task.not_before_us if later else None
            self._auditor.released(number, row.state, row.version, self.fence)
            found.append(self.ready_row(row))
        return found

    def _drop_edges(self, children: list[int]) -> list[Any]:
        for child in children:
            for parent in self.parents.get(child, ()):
                self.edges.pop((parent, child), None)
        return []

    # ---- edits by owners --------------------------------------------------------------------------------------------

    def _cancel_waiting(self, ids: list[int], tenant: int, reason: str) -> list[Any]:
        self.fence = None
        found = []
        for number in sorted(ids):
            row = self.queue.get(number)
            if row is not None and row.tenant == tenant and row.state != RUNNING:
                self._end(row, 0, CANCELLED, 11, reason)
                found.append(Row(id=number, pool=row.pool))
        return found

    def _cancel_running(self, ids: list[int], tenant: int) -> list[Any]:
        found = []
        for number in sorted(ids):
            row = self.queue.get(number)
            if row is not None and row.tenant == tenant and row.state == RUNNING and not row.cancel_requested:
                row.cancel_requested = True
                row.version += 1
                self._auditor.cancel_wished(number, row.version)
                found.append(Row(id=number, pool=row.pool, attempt=row.attempt))
        return found

    def _claim_rerun(self, task: int, tenant: int, rerun: int) -> list[Any]:
        if task in self.reruns:
            return []
        self.reruns[task] = rerun
        return [(rerun,)]

    def _rerun_task(self, old: int, new: int, user: str, server: int) -> list[Any]:
        task = self.tasks[old]
        again = replace(task, id=new, key=None, after=(), not_before_us=None)
        self.tasks[new] = again
        return [
            Row(
                id=new, tenant=task.tenant, pool=task.pool, kind=1, name="work", lane=task.lane, priority=task.priority,
                start_by=from_us(self.now_us() + task.tolerance_ms * 1000), cap_ms=task.cap_ms, shape=task.shape,
                attempts=task.attempts, concurrency_key=task.concurrency_key,
                concurrency_limit=task.concurrency_limit, preemptible=task.preemptible,
            )
        ]  # fmt: skip

    def _drop_dead_letter(self, task: int) -> list[Any]:
        self.dead_letters.pop(task, None)
        self._auditor.redriven(task)
        return []

    def _queue_rerun(self, new: int, start_by: Any, *_: Any) -> list[Any]:
        self.enqueue(self.tasks[new], READY, None, to_us(start_by))
        return []

    def enqueue(self, task: Task, state: int, wake_us: int | None, start_by_us: int) -> None:
        self.tasks[task.id] = task
        self.queue[task.id] = Queued(task, state, wake_us, start_by_us, task.lane, task.id, task.pool, task.tenant)
        self._auditor.admitted(
            task.id, task.tenant, task.pool, state, tuple(task.after), task.upstream, task.key, task.attempts,
            task.backoff_ms, task.backoff_limit_ms, task.not_before_us, task.concurrency_key, task.concurrency_limit,
            task.shape, task.lane,
        )  # fmt: skip
        self._auditor.waits_for_its_first(task.id, self.now_us())

    def _register_node(self, pool: int, name: str, boot: int, *_: Any) -> list[Any]:
        number = self.nodes.setdefault((pool, name), len(self.nodes) + 1)
        return [Row(id=number, state="draining" if number in self.draining else "up")]
