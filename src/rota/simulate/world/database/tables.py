"""The modelled database: finds the method for a statement and runs it on rows in memory.

A statement runs atomically and at once; `connection.py` has latency, lost replies and locks. `statements/` has the
methods by subject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from rota.model.catalogue import LaneRule, PoolRule
from rota.model.clock import from_us
from rota.simulate.world.auditor import Auditor
from rota.simulate.world.database.contents import Contents, Statements, Subject
from rota.simulate.world.database.rows import Row
from rota.simulate.world.database.statements.leases import Leases
from rota.simulate.world.database.statements.owners import Owners
from rota.simulate.world.database.statements.places import Places
from rota.simulate.world.database.statements.queue import Queue
from rota.simulate.world.database.statements.settling import Settling
from rota.simulate.world.sometimes import Sometimes
from rota.store.statements import sql

_lane = attrgetter(*(field.name for field in fields(LaneRule)))
_pool_rule = attrgetter(*(field.name for field in fields(PoolRule)))
_WITHOUT_EFFECT = (
    "admission/keep_dependents",  # nothing here looks for them
    "admission/keep_tags",  # nothing here looks for tags
    "cancel_and_rerun/copy_membership",  # there are no graphs here
    "caps/load_changed_caps",  # caps never change here
    "concurrency_keys/lock_keys",  # transactions run one at a time here
    "edits/record_edits",  # nothing here reads it
    "events/record_promoted",
    "leases/end_old_leader",  # `connection.py` ends open operations
    "nodes/save_reports",  # nothing here reads them
    "nodes/touch_nodes",
    "pausing/lock_tasks",  # transactions run one at a time here
    "pausing/set_held_reason",  # nothing here reads it
    "run_times/save_run_times",  # only admission reads them
    "shares/drop_other_shares",
)


class Tables(Contents):
    def __init__(self, auditor: Auditor, sometimes: Sometimes, now_us: Callable[[], int]) -> None:
        super().__init__(auditor, sometimes, now_us)
        named: Statements = {
            "catalogue/pause_pool": self._pause_pool,
            "catalogue/read_lanes": lambda: list(map(_lane, self.lanes.values())),
            "catalogue/rules_version": lambda pool: [(self.rules[pool],)],
            "catalogue/read_pools": lambda: list(map(_pool_rule, self.pool_rules.values())),
            "nodes/draining_nodes": lambda pool: [Row(id=number, overdue=False) for number in sorted(self.draining)],
            "nodes/find_node": lambda pool, name: [(self.nodes[pool, name],)] if (pool, name) in self.nodes else [],
            "nodes/register_node": self._register_node,
            "nodes/set_draining": self._set_draining,
            "reading/database_clock": lambda: [(from_us(self.now_us()),)],
            "settlement/drop_edges": self.drop_edges,
            "shares/read_shares": self._read_shares,
            "shares/save_shares": self._save_shares,
            "tenants/pause_tenant": self._pause_tenant,
        }
        self._statements = {sql(name): run for name, run in named.items()}
        self._statements |= dict.fromkeys(map(sql, _WITHOUT_EFFECT), lambda *_: [])
        for subject in (Leases(self), Queue(self), Places(self), Settling(self), Owners(self)):
            self._statements |= subject.statements()

    def know(self, subject: Subject) -> None:
        self._statements |= subject.statements()

    def run(self, text: str, arguments: Sequence[Any]) -> list[Any]:
        statement = self._statements.get(text)
        if statement is None:
            raise AssertionError(f"the simulator has no method for this statement: {text[:120]}")
        return statement(*arguments)

    def _pause_pool(self, name: str, paused: bool) -> list[Any]:
        number = int(name.removeprefix("pool"))
        self.pool_rules[number] = replace(self.pool_rules[number], paused=paused)
        self.change_rules(number)
        self.auditor.pause_set(("pool", number), self.now_us(), paused=paused)
        return [_pool_rule(self.pool_rules[number])]

    def _pause_tenant(self, name: str, paused: bool) -> list[Any]:
        number = int(name.removeprefix("tenant"))
        (self.paused_tenants.add if paused else self.paused_tenants.discard)(number)
        self.change_rules()
        self.auditor.pause_set(("tenant", number), self.now_us(), paused=paused)
        return [(number, name, "plan", from_us(self.now_us()), False, paused)]

    def _set_draining(self, number: int, draining: bool, _: float | None) -> list[Any]:
        (self.draining.add if draining else self.draining.discard)(number)
        self.change_rules(*(pool for (pool, _), own in self.nodes.items() if own == number))
        self.auditor.pause_set(("node", number), self.now_us(), paused=draining)
        return []

    def _read_shares(self, pool: int) -> list[Any]:
        charged, saved_us = self.shares.get(pool, ({}, 0))
        return [Row(tenant=tenant, charged=amount, saved_at=from_us(saved_us)) for tenant, amount in charged.items()]

    def _save_shares(self, pool: int, tenants: list[int], charged: list[float]) -> list[Any]:
        self.shares[pool] = (dict(zip(tenants, charged, strict=True)), self.now_us())
        return []

    def _register_node(self, pool: int, name: str, boot: int, *_: Any) -> list[Any]:
        number = self.nodes.setdefault((pool, name), len(self.nodes) + 1)
        return [Row(id=number, state="draining" if number in self.draining else "up")]
