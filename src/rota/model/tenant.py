"""Tenants, their plans, and callers: who sends a request, and what they may do."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from rota.model.accounts.permissions import SCOPES, Reach, Role, Scope
from rota.model.accounts.restrictions import UNRESTRICTED, Restrictions
from rota.model.node import Identity
from rota.model.resources import CpuLimit


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


class CallerKind(enum.StrEnum):
    USER = "user"
    SERVICE = "service"  # a service account, or a token that was made before there were accounts
    NODE = "node"
    TASK = "task"  # the key of a running task


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request, to which tenant, and what they may do there."""

    tenant_id: int
    tenant: str
    user: str
    plan: Plan
    scopes: frozenset[Scope]
    role: Role  # the one that gives most, for people to read
    kind: CallerKind = CallerKind.SERVICE
    principal_id: int | None = None
    token_id: int = 0  # 0: no token
    token_name: str = ""
    session_id: int = 0  # 0: no session
    proved: bool = False  # of a session: the user proved who they are a short time ago
    foreign: bool = False  # looks into a tenant where no binding is its own
    everywhere: frozenset[Scope] = frozenset()  # of the scopes, those that it has at every tenant
    own_only: bool = False  # changes no tasks but those of its user: so the tenant wants it of members
    expires_at: datetime | None = None  # its token or session; None: never
    expires_soon: bool = False  # its token: answers say so
    pools: frozenset[str] | None = None  # whose nodes it may change; None: of all pools
    restrictions: Restrictions = UNRESTRICTED
    node: Identity | None = None  # the node whose agent it is
    trusted: bool = False  # an operator lets this tenant's code run without a sandbox
    task: SubmittingTask | None = None  # whose key it is

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def may_everywhere(self, scope: Scope) -> bool:
        """Whether it has the scope by a role that holds everywhere, so not for the tenant of the request only."""
        return scope in self.everywhere

    def may_change(self, pool: str) -> bool:
        """Whether its scopes hold for the nodes of this pool."""
        return self.pools is None or pool in self.pools

    @property
    def credential(self) -> str:
        """What it proved itself with, as people read it: `token ci-7`, `session 12`, `task 9`."""
        if self.task is not None:
            return f"task {self.task.id}"
        if self.node is not None:
            return f"node {self.node.pool}/{self.node.name}"
        if self.session_id:
            return f"session {self.session_id}"
        return f"token {self.token_name or self.token_id}"


def scopes_of(role: Role) -> frozenset[Scope]:
    """Of a role where it is usual: at a tenant, and for operators everywhere."""
    return SCOPES[role, Reach.TENANT if role in (Role.MEMBER, Role.VIEWER) else Reach.EVERYWHERE]


MEMBER_SCOPES = scopes_of(Role.MEMBER)
