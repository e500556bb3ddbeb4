"""The tables of the modelled database, and the changes that several subjects share.

Each change is reported to the auditor, in plain numbers, when it becomes durable.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any, ClassVar

from rota.model.catalogue import DEFAULT_LANES, PoolRule
from rota.model.clock import from_us
from rota.simulate.world.auditor import Auditor
from rota.simulate.world.database.rows import BLOCKED, FAILED, Edge, Lease, Queued, Row, Task
from rota.simulate.world.sometimes import Sometimes
from rota.simulate.world.task_record import TaskRecord
from rota.store.statements import sql

Target = tuple[str, int]  # "pool", "tenant" or "node", and its number
Statements = dict[str, Callable[..., list[Any]]]  # by their text

_AUDITED = {field.name for field in fields(Task)} & {field.name for field in fields(TaskRecord)} - {"tolerance_ms"}


class Contents:
    def __init__(self, auditor: Auditor, sometimes: Sometimes, now_us: Callable[[], int]) -> None:
        self.auditor = auditor
        self.sometimes = sometimes
        self.now_us = now_us
        self.tasks: dict[int, Task] = {}
        self.queue: dict[int, Queued] = {}
        self.ended: dict[int, int] = {}  # task → final state
        self.edges: dict[tuple[int, int], Edge] = {}
        self.children: dict[int, list[int]] = {}
        self.parents: dict[int, list[int]] = {}
        self.keys: dict[tuple[int, bytes], tuple[bytes, int]] = {}
        self.admission_commits: dict[object, bool] = {}
        self.leases: dict[int, Lease] = {}
        self.nodes: dict[tuple[int, str], int] = {}
        self.draining: set[int] = set()
        self.tenants: dict[int, tuple[int, int | None, int | None]] = {}
        self.paused_tenants: set[int] = set()
        self.dead_letters: dict[int, str] = {}
        self.reruns: dict[int, int] = {}
        self.shares: dict[int, tuple[dict[int, float], int]] = {}
        self.lanes = {lane.number: lane for lane in DEFAULT_LANES}
        self.pool_rules = {pool: PoolRule(pool, f"pool{pool}") for pool in (1, 2)}
        self.rules = dict.fromkeys(self.pool_rules, 0)  # pool → version of its operators' rules
        self.paused_before: frozenset[Target] | None = None  # what was paused when the statement arrived
        self.cooled: dict[tuple[int, str], int] = {}  # (tenant, key) → until (µs)
        self.process = ""  # the client of the current statement, for the auditor
        self.wall_us = 0  # the client's own wall clock
        self.fenced_before: bool | None = None  # the fence when the statement arrived, before any lock
        self.fence: tuple[int, int] | None = None  # (pool, epoch) of the current transaction

    def fence_holds(self, pool: int, epoch: int, holder: object) -> bool:
        lease = self.leases.get(pool)
        return lease is not None and lease.epoch == epoch and lease.holder == holder

    def fenced(self, pool: int, epoch: int, holder: object) -> bool:
        holds = self.fence_holds(pool, epoch, holder)
        if not holds:
            self.sometimes.hit("fenced write rejected")
        self.fence = (pool, epoch)
        return holds

    def change_rules(self, *pools: int) -> None:
        """As the triggers on the tables that leaders' rules come from; of all pools unless some are named."""
        for pool in pools or self.rules:
            self.rules[pool] += 1

    def paused(self) -> frozenset[Target]:
        """What an operator has paused: pools, tenants, nodes."""
        pools = (pool for pool, rule in self.pool_rules.items() if rule.paused)
        kinds = (("pool", pools), ("tenant", self.paused_tenants), ("node", self.draining))
        return frozenset((kind, number) for kind, numbers in kinds for number in numbers)

    def ready_row(self, row: Queued) -> Row:
        return row.columns(
            "id tenant lane cap_ms shape work version concurrency_key concurrency_limit concurrency_global state"
            " preemptible",
            urgency=-row.task.priority,
            start_by=from_us(row.start_by_us),
            due=row.wake_us is not None and row.wake_us <= self.now_us(),
            wake_at=None if row.wake_us is None else from_us(row.wake_us),
            leeway_ms=row.leeway_ms(),
        )

    def enqueue(self, task: Task, state: int, wake_us: int | None, start_by_us: int) -> None:
        self.tasks[task.id] = task
        row = Queued(task, state, wake_us, start_by_us, task.lane, task.id, task.pool, task.tenant)
        self.queue[task.id] = row
        row.expires = task.expires and state != BLOCKED
        if wake_us is None:
            row.wake_us = row.urgent_us()
        record = TaskRecord(
            **{name: getattr(task, name) for name in _AUDITED},
            state=state,
            parents=tuple(task.after),
            wake_us=task.not_before_us,
            start_by_us=start_by_us,
            tolerance_ms=task.tolerance_ms if task.tolerance_given else None,
        )
        self.auditor.admitted(task.id, record, task.key)
        self.auditor.waits_for_its_first(task.id, self.now_us())
        self.auditor.watch_waiting(task.id, self.now_us())

    def end(self, row: Queued, number: int, state: int, outcome: int, reason: str | None = None) -> None:
        del self.queue[row.id]
        self.ended[row.id] = state
        if state == FAILED:
            self.dead_letters[row.id] = reason or ""
            if (reason or "").startswith("poison"):
                self.sometimes.hit("poison to dead letter")
        self.auditor.ended(row.id, number, state, outcome, self.fence, reason or "")

    def drop_edges(self, children: list[int]) -> list[Any]:
        for child in children:
            for parent in self.parents.get(child, ()):
                self.edges.pop((parent, child), None)
        return []


class Subject:
    """Statements of one subject: each public method has the name and the meaning of a file in one of the folders."""

    folders: ClassVar[tuple[str, ...]]
    _methods: ClassVar[dict[str, str]]  # text → method

    def __init_subclass__(cls) -> None:
        names = [name for name, value in vars(cls).items() if callable(value) and not name.startswith("_")]
        cls._methods = {_text(cls.folders, name): name for name in names}

    def __init__(self, contents: Contents) -> None:
        self._tables = contents

    def statements(self) -> Statements:
        return {text: getattr(self, name) for text, name in self._methods.items()}


def _text(folders: tuple[str, ...], name: str) -> str:
    for folder in folders:
        with suppress(FileNotFoundError):
            return sql(f"{folder}/{name}")
    raise AssertionError(f"{name} is no statement of {', '.join(folders)}")
