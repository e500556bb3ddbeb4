"""What a leader reads: ready tasks, due tasks, running attempts, timers, and dependents to release."""

from __future__ import annotations

from typing import Any

from rota.model.clock import from_us, to_us
from rota.simulate.world.database.contents import Contents, Statements
from rota.simulate.world.database.rows import DELAYED, READY, RUNNING, Queued, Row


class Loading:
    def __init__(self, contents: Contents) -> None:
        self._tables = contents
        self.statements: Statements = {
            "queue/load_ready": self._load_ready,
            "queue/load_due": self._load_due,
            "queue/next_timers": self._next_timers,
            "queue/active_tenants": self._active_tenants,
            "queue/load_running": self._load_running,
            "queue/load_stopping": self._load_stopping,
            "queue/dependents_to_release": self._dependents_to_release,
        }

    def _load_ready(
        self,
        pool: int,
        tenants: list[int],
        lanes: list[int],
        urgencies: list[int],
        start_bys: list[Any],
        caps: list[int],
        ids: list[int],
        amounts: list[int],
    ) -> list[Any]:
        by_tenant: dict[int, list[Queued]] = {}
        now = self._tables.now_us()
        for row in self._tables.queue.values():
            if row.state == READY and row.pool == pool and not row.too_late(now):
                by_tenant.setdefault(row.tenant, []).append(row)
        found: list[Any] = []
        for index, tenant in enumerate(tenants):
            rows = by_tenant.get(tenant)
            if rows:
                cursor = (lanes[index], urgencies[index], to_us(start_bys[index]), caps[index], ids[index])
                past = sorted((row for row in rows if row.order() > cursor), key=Queued.order)
                if len(past) > amounts[index]:
                    self._tables.sometimes.hit("ready set spilled")
                found += [self._tables.ready_row(row) for row in past[: amounts[index]]]
        return found

    def _load_due(self, pool: int, tenants: list[int], since: list[Any], amount: int) -> list[Any]:
        now = self._tables.now_us()
        due = [
            row
            for row in self._tables.queue.values()
            if row.wake_us is not None
            and row.wake_us <= now
            and row.pool == pool
            and row.state in (DELAYED, READY)
            and not row.too_late(now)
        ]
        if not due:
            return []
        due.sort(key=lambda row: (row.wake_us, row.id))
        return [
            self._tables.ready_row(row) for tenant in tenants for row in [r for r in due if r.tenant == tenant][:amount]
        ]

    def _next_timers(self, pool: int, tenants: list[int]) -> list[Any]:
        now = self._tables.now_us()
        first: dict[int, int] = {}
        for row in self._tables.queue.values():
            if row.wake_us is not None and row.wake_us > now and row.pool == pool:
                first[row.tenant] = min(first.get(row.tenant, row.wake_us), row.wake_us)
        return [Row(tenant=tenant, seconds=(first[tenant] - now) / 1e6) for tenant in tenants if tenant in first]

    def _active_tenants(self, pool: int) -> list[Any]:
        active = sorted({row.tenant for row in self._tables.queue.values() if row.pool == pool})
        paused = self._tables.paused_tenants
        return [(tenant, *self._tables.tenants[tenant], None, 50, tenant in paused) for tenant in active]

    def _load_running(self, pool: int) -> list[Any]:
        return [
            row.columns(
                "id attempt tenant shape node boot grace_ms work concurrency_key concurrency_limit concurrency_global"
                " cancel_requested cap_ms lane preemptible",
                started_at=from_us(row.started_us),
            )
            for row in self._tables.queue.values()
            if row.pool == pool and row.state == RUNNING
        ]

    def _load_stopping(self, pool: int) -> list[Any]:
        return [
            Row(id=row.id, attempt=row.attempt, cancels=row.cancel_requested)
            for row in self._tables.queue.values()
            if (row.cancel_requested or row.pause_requested) and row.state == RUNNING and row.pool == pool
        ]

    def _dependents_to_release(self, pool: int, after: int, limit: int) -> list[Any]:
        found = {
            edge.child
            for edge in self._tables.edges.values()
            if edge.parent_state is not None and edge.child_pool == pool and edge.child > after
        }
        return [(child,) for child in sorted(found)[:limit]]
