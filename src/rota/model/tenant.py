"""Tenants, plans, roles and scopes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from rota.model.resources import CpuLimit


class Role(enum.StrEnum):
    ADMIN = "admin"  # everything, for all tenants
    OPERATOR = "operator"  # nodes and pools; reads all tenants
    MEMBER = "member"  # its own tenant's tasks
    VIEWER = "viewer"  # its own tenant's reads
    WORKER = "worker"  # an agent: only the worker connections


class Scope(enum.StrEnum):
    READ = "tasks:read"
    WRITE = "tasks:write"
    NODES = "nodes:read"
    OPERATE = "nodes:write"
    ADMIN = "admin"
    WORK = "work"


SCOPES: dict[Role, frozenset[Scope]] = {
    Role.ADMIN: frozenset({Scope.READ, Scope.WRITE, Scope.NODES, Scope.OPERATE, Scope.ADMIN}),
    Role.OPERATOR: frozenset({Scope.READ, Scope.NODES, Scope.OPERATE}),
    Role.MEMBER: frozenset({Scope.READ, Scope.WRITE, Scope.NODES}),
    Role.VIEWER: frozenset({Scope.READ, Scope.NODES}),
    Role.WORKER: frozenset({Scope.WORK}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A subscription. `None` means unlimited."""

    name: str
    tasks_per_hour: int | None
    burst: int | None
    waiting_tasks: int | None
    running_cpu_milli: int | None
    running_memory_bytes: int | None
    longest_cap_seconds: int
    tiers: tuple[str, ...] | None  # None: all, also those that are added later
    weight: int
    running_tasks: int | None = None
    schedules: int | None = None
    webhooks: int | None = None
    tokens: int | None = None  # that are valid
    secrets: int | None = None
    graphs: int | None = None  # stored graphs and arrays, without those that schedules made
    storage_bytes: int | None = None  # artifacts and objects of attempts
    urgent_percent: int = 50  # the part of a pool that its urgent lane may hold while other tenants wait
    tolerance_ms: int | None = 3_600_000  # of tasks whose client gives neither a tolerance nor a cap; None: none
    log_limit_bytes: int | None = None  # the most output kept of one attempt
    network: bool = False  # sandboxed tasks may use the network
    cpu_limit: CpuLimit | None = None  # None: by the trust in the tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittingTask:
    """The running task whose key a request carries, and what bounds it and the tasks that it submits."""

    id: int
    attempt: int
    graph: int  # the outermost graph that it is in: what it submits joins this one
    secrets: frozenset[str] = frozenset()  # that it was given, and may hand on

    # What a key may do, for the answers to requests that go beyond it.
    MAY: ClassVar[str] = (
        "the key of a running task may submit tasks, arrays and graphs, which join the task's own graph; read, wait "
        "for and cancel the tasks of that graph, and read their output and results; and use once"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The owner of an authenticated token, or of the key of a running task."""

    token_id: int
    tenant_id: int
    tenant: str
    user: str
    role: Role
    plan: Plan
    trusted: bool = False  # an operator lets this tenant's code run without a sandbox
    task: SubmittingTask | None = None  # whose key it is; None: a token

    def may(self, scope: Scope) -> bool:
        return scope in SCOPES[self.role]
