"""The queue as a leader uses it: ready and due tasks, timers, starts, running attempts, dependents to release."""

from __future__ import annotations

from typing import Any

from rota.model.clock import from_us, to_us
from rota.simulate.world.database.contents import Subject
from rota.simulate.world.database.rows import DELAYED, LONGEST_CAP_SECONDS, READY, RUNNING, Queued, Row


class Queue(Subject):
    folders = ("queue",)

    def load_ready(
        self,
        pool: int,
        tenants: list[int],
        cursor_ranks: list[int],
        urgencies: list[int],
        start_bys: list[Any],
        caps: list[int],
        ids: list[int],
        amounts: list[int],
        served: list[int],
        lanes: list[int],
        lane_ranks: list[int],
    ) -> list[Any]:
        ranks = dict(zip(lanes, lane_ranks, strict=True))

        def position(row: Queued) -> tuple[int, ...]:
            return (ranks[row.lane], *row.order()[1:])

        by_tenant: dict[int, list[Queued]] = {}
        now = self._tables.now_us()
        for row in self._tables.queue.values():
            if row.state == READY and row.pool == pool and row.lane in ranks and not row.too_late(now):
                by_tenant.setdefault(row.tenant, []).append(row)
        found: list[Any] = []
        columns = (tenants, cursor_ranks, urgencies, map(to_us, start_bys), caps, ids, amounts)
        for tenant, *cursor, amount in zip(*columns, strict=True):
            past = [row for row in by_tenant.get(tenant, ()) if position(row) > tuple(cursor)]
            if len(past) > amount:
                self._tables.sometimes.hit("ready set spilled")
            found += [self._tables.ready_row(row) for row in sorted(past, key=position)[:amount]]
        return found

    def load_due(self, pool: int, tenants: list[int], since: list[Any], amount: int) -> list[Any]:
        now = self._tables.now_us()
        waiting = [row for row in self._tables.queue.values() if row.pool == pool and row.state in (DELAYED, READY)]
        due = [row for row in waiting if row.wake_us is not None and row.wake_us <= now and not row.too_late(now)]
        if not due:
            return []
        due.sort(key=lambda row: (row.wake_us, row.id))
        return [
            self._tables.ready_row(row) for tenant in tenants for row in [r for r in due if r.tenant == tenant][:amount]
        ]

    def next_timers(self, pool: int, tenants: list[int]) -> list[Any]:
        now = self._tables.now_us()
        first: dict[int, int] = {}
        for row in self._tables.queue.values():
            if row.wake_us is not None and row.wake_us > now and row.pool == pool:
                first[row.tenant] = min(first.get(row.tenant, row.wake_us), row.wake_us)
        return [Row(tenant=tenant, seconds=(first[tenant] - now) / 1e6) for tenant in tenants if tenant in first]

    def active_tenants(self, pool: int, also: list[int]) -> list[Any]:
        active = sorted({row.tenant for row in self._tables.queue.values() if row.pool == pool} | set(also))
        paused = self._tables.paused_tenants
        return [
            (tenant, *self._tables.tenants[tenant], None, 50, tenant in paused, LONGEST_CAP_SECONDS)
            for tenant in active
        ]

    def load_running(self, pool: int) -> list[Any]:
        return [
            row.columns(
                "id attempt tenant shape node boot grace_ms work concurrency_key concurrency_limit concurrency_global"
                " cancel_requested cap_ms lane preemptible",
                started_at=from_us(row.started_us),
            )
            for row in self._tables.queue.values()
            if row.pool == pool and row.state == RUNNING
        ]

    def load_stopping(self, pool: int) -> list[Any]:
        return [
            Row(id=row.id, attempt=row.attempt, cancels=row.cancel_requested)
            for row in self._tables.queue.values()
            if (row.cancel_requested or row.pause_requested) and row.state == RUNNING and row.pool == pool
        ]

    def dependents_to_release(self, pool: int, after: int, limit: int) -> list[Any]:
        found = {
            edge.child
            for edge in self._tables.edges.values()
            if edge.parent_state is not None and edge.child_pool == pool and edge.child > after
        }
        return [(child,) for child in sorted(found)[:limit]]

    def start_attempts(
        self,
        pool: int,
        epoch: int,
        holder: object,
        ids: list[int],
        versions: list[int],
        nodes: list[int],
        boots: list[int],
        graces: list[int],
        rules: int,
    ) -> list[Any]:
        if not self._tables.fenced(pool, epoch, holder):
            return []
        if self._tables.rules[pool] != rules:
            self._tables.sometimes.hit("rules changed before a start")
            return []
        # As the statement's snapshot has it: pauses that came while it waited are in the version of the rules.
        before = self._tables.paused_before
        paused = self._tables.paused() if before is None else before
        now = self._tables.now_us()
        started = []
        for number, version, node, boot, grace in zip(ids, versions, nodes, boots, graces, strict=True):
            row = self._tables.queue.get(number)
            if row is None or row.version != version or row.pool != pool:
                continue
            if row.state != READY and not (row.state == DELAYED and (row.wake_us or 0) <= now):
                continue
            if row.too_late(now) or paused & {("pool", pool), ("tenant", row.tenant), ("node", node)}:
                continue
            row.state, row.wake_us, row.expires = RUNNING, None, False
            row.attempt += 1
            row.version += 1
            row.node, row.boot, row.epoch, row.grace_ms, row.started_us = node, boot, epoch, grace, now
            self._tables.auditor.started(number, row.version, row.attempt, node, boot, pool, epoch, now)
            started.append(_started(row))
        return started

    def find_started(
        self, epoch: int, ids: list[int], versions: list[int], nodes: list[int], boots: list[int]
    ) -> list[Any]:
        found = []
        for number, version, *where in zip(ids, versions, nodes, boots, strict=True):
            row = self._tables.queue.get(number)
            if row is None or row.version <= version or row.state != RUNNING:
                continue
            if [row.epoch, row.node, row.boot] == [epoch, *where]:
                found.append(_started(row))
        return found


def _started(row: Queued) -> tuple[Any, ...]:
    return (row.id, row.attempt, 1, "work", "{}", row.task.key, None)
