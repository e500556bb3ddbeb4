"""Tenants, their plans, and who may do what."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Role(enum.StrEnum):
    ADMIN = "admin"  # everything, all tenants
    OPERATOR = "operator"  # nodes and pools, all tenants' reads
    MEMBER = "member"  # its own tenant's tasks
    VIEWER = "viewer"  # its own tenant's reads
    WORKER = "worker"  # an agent's credential: the worker connection and nothing else


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
    tiers: tuple[str, ...]
    weight: int
    running_tasks: int | None = None
    storage_bytes: int | None = None  # artifacts and what attempts store
    urgent_percent: int = 50  # of the pool, what it may hold through the urgent lane while others wait
    network: bool = False  # its sandboxed tasks may be given the network


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking: one authenticated token."""

    token_id: int
    tenant_id: int
    tenant: str
    user: str
    role: Role
    plan: Plan
    trusted: bool = False  # an operator says that this tenant's code may run without walls

    def may(self, scope: Scope) -> bool:
        return scope in SCOPES[self.role]
