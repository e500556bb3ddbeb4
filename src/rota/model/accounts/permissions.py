"""Who may do what: scopes, what each role has of them by its reach, and bundles of scopes for tokens. Pure.

A principal has bindings: a role at a tenant, at a pool, or everywhere. `rights` turns them into the scopes of a request
to a tenant. Which scope a route needs is in `api/permissions.py`. The tables of docs/accounts.md are made from both.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass


class Role(enum.StrEnum):
    ADMIN = "admin"  # at a tenant: its accounts too; everywhere: everything
    OPERATOR = "operator"  # nodes and pools, of one pool or of all
    MEMBER = "member"  # a tenant's tasks
    VIEWER = "viewer"  # a tenant's reads
    WORKER = "worker"  # a token for agents; no principal has this role


class Scope(enum.StrEnum):
    TASKS_READ = "tasks:read"
    TASKS_SUBMIT = "tasks:submit"
    TASKS_CONTROL = "tasks:control"
    LOGS_READ = "logs:read"
    RESULTS_READ = "results:read"
    ARTIFACTS_READ = "artifacts:read"
    ARTIFACTS_WRITE = "artifacts:write"
    SCHEDULES_READ = "schedules:read"
    SCHEDULES_WRITE = "schedules:write"
    SECRETS_READ = "secrets:read"  # names, never values
    SECRETS_WRITE = "secrets:write"
    EVENTS_READ = "events:read"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"
    USAGE_READ = "usage:read"
    NODES_READ = "nodes:read"
    NODES_WRITE = "nodes:write"
    POOLS_WRITE = "pools:write"
    SCALE = "scale"
    METRICS_READ = "metrics:read"
    AUDIT_READ = "audit:read"
    TOKENS_WRITE = "tokens:write"
    USERS_READ = "users:read"
    USERS_WRITE = "users:write"
    ADMIN = "admin"
    WORK = "work"


# What each scope lets its bearer do, for the documentation and for answers that refuse.
MEANING: dict[Scope, str] = {
    Scope.TASKS_READ: "see tasks, graphs, operations and dead letters, and why a task waits",
    Scope.TASKS_SUBMIT: "submit tasks and graphs",
    Scope.TASKS_CONTROL: "cancel, hold, release, pause, retry, extend and edit tasks",
    Scope.LOGS_READ: "read the output of tasks",
    Scope.RESULTS_READ: "read results, and what a task was given",
    Scope.ARTIFACTS_READ: "list and download files",
    Scope.ARTIFACTS_WRITE: "upload and delete files",
    Scope.SCHEDULES_READ: "see schedules and their runs",
    Scope.SCHEDULES_WRITE: "make, change, pause and delete schedules",
    Scope.SECRETS_READ: "see the names of secrets",
    Scope.SECRETS_WRITE: "set and delete secrets",
    Scope.EVENTS_READ: "follow events",
    Scope.WEBHOOKS_READ: "see webhooks and their deliveries",
    Scope.WEBHOOKS_WRITE: "make, change and delete webhooks",
    Scope.USAGE_READ: "see the plan and how much of it is used",
    Scope.NODES_READ: "see nodes, server nodes, pools, lanes, tiers and load",
    Scope.NODES_WRITE: "drain, reload and remove nodes, and make keys for new ones",
    Scope.POOLS_WRITE: "pause and resume pools",
    Scope.SCALE: "ask how many nodes a pool needs",
    Scope.METRICS_READ: "read metrics, and check the database",
    Scope.AUDIT_READ: "read and verify the audit log",
    Scope.TOKENS_WRITE: "make, rotate and revoke tokens",
    Scope.USERS_READ: "see users, service accounts and their roles",
    Scope.USERS_WRITE: "add and remove users and service accounts, and give and take roles",
    Scope.ADMIN: "change tenants, plans, pools, lanes, tiers, categories and retention",
    Scope.WORK: "be a node's agent",
}

_VIEWER = frozenset(
    {
        Scope.TASKS_READ,
        Scope.LOGS_READ,
        Scope.RESULTS_READ,
        Scope.ARTIFACTS_READ,
        Scope.SCHEDULES_READ,
        Scope.SECRETS_READ,
        Scope.EVENTS_READ,
        Scope.WEBHOOKS_READ,
        Scope.USAGE_READ,
        Scope.NODES_READ,
    }
)
_MEMBER = _VIEWER | {
    Scope.TASKS_SUBMIT,
    Scope.TASKS_CONTROL,
    Scope.ARTIFACTS_WRITE,
    Scope.SCHEDULES_WRITE,
    Scope.SECRETS_WRITE,
    Scope.WEBHOOKS_WRITE,
    Scope.TOKENS_WRITE,
}
# What of a tenant's tasks is its own business: `PAYLOAD` is not given to roles that hold everywhere.
PAYLOAD = frozenset({Scope.LOGS_READ, Scope.RESULTS_READ, Scope.ARTIFACTS_READ})
_OVERSEER = frozenset(
    {
        Scope.TASKS_READ,
        Scope.SCHEDULES_READ,
        Scope.USAGE_READ,
        Scope.NODES_READ,
        Scope.METRICS_READ,
        Scope.AUDIT_READ,
        Scope.TOKENS_WRITE,
    }
)


class Reach(enum.StrEnum):
    TENANT = "tenant"
    POOL = "pool"
    EVERYWHERE = "everywhere"


SCOPES: dict[tuple[Role, Reach], frozenset[Scope]] = {
    (Role.VIEWER, Reach.TENANT): _VIEWER | {Scope.TOKENS_WRITE},
    (Role.MEMBER, Reach.TENANT): _MEMBER,
    (Role.ADMIN, Reach.TENANT): _MEMBER | {Scope.USERS_READ, Scope.USERS_WRITE, Scope.AUDIT_READ},
    (Role.VIEWER, Reach.EVERYWHERE): _OVERSEER | {Scope.USERS_READ, Scope.EVENTS_READ, Scope.WEBHOOKS_READ},
    (Role.OPERATOR, Reach.POOL): frozenset(
        {Scope.NODES_READ, Scope.NODES_WRITE, Scope.POOLS_WRITE, Scope.TOKENS_WRITE}
    ),
    (Role.OPERATOR, Reach.EVERYWHERE): _OVERSEER
    | {Scope.TASKS_CONTROL, Scope.NODES_WRITE, Scope.POOLS_WRITE, Scope.SCALE},
    (Role.ADMIN, Reach.EVERYWHERE): frozenset(Scope) - {Scope.WORK},
    (Role.WORKER, Reach.EVERYWHERE): frozenset({Scope.WORK}),
}

BUNDLES: dict[str, frozenset[Scope]] = {
    "ci": frozenset({Scope.TASKS_SUBMIT, Scope.TASKS_READ, Scope.LOGS_READ, Scope.RESULTS_READ, Scope.ARTIFACTS_WRITE}),
    "dashboard": _VIEWER,
    "autoscaler": frozenset({Scope.SCALE, Scope.NODES_READ}),
    "prometheus": frozenset({Scope.METRICS_READ}),
}

# A token has these only if it names them, or if its owner is an administrator everywhere.
_NAMED_ONLY = frozenset({Scope.TOKENS_WRITE, Scope.USERS_WRITE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A role at the tenant with this id, at the pool of this name, or everywhere if neither is given."""

    role: Role
    tenant: int | None = None
    pool: str | None = None

    @property
    def reach(self) -> Reach:
        if self.tenant is not None:
            return Reach.TENANT
        return Reach.EVERYWHERE if self.pool is None else Reach.POOL


@dataclass(frozen=True, slots=True)
class Rights:
    """What a principal may do in requests to one tenant."""

    scopes: frozenset[Scope]
    pools: frozenset[str] | None  # whose nodes it may change; None: of all pools
    everywhere: frozenset[Scope] = frozenset()  # of the scopes, those that it has at every tenant

    def within(self, scopes: Collection[str] | None) -> Rights:
        """Those of a token: never more than its owner's. `scopes` None: all that are not given by name only."""
        if scopes is None:
            return self if Scope.ADMIN in self.scopes else self._only(self.scopes - _NAMED_ONLY)
        return self._only(frozenset(scope for scope in self.scopes if scope.value in scopes))

    def _only(self, scopes: frozenset[Scope]) -> Rights:
        return Rights(scopes, self.pools, self.everywhere & scopes)


def rights(bindings: Iterable[Binding], tenant: int, *, support: bool) -> Rights:
    """`support`: the tenant lets those who hold a role everywhere see the payload of its tasks."""
    scopes: set[Scope] = set()
    everywhere: set[Scope] = set()
    pools: set[str] = set()
    for binding in bindings:
        if binding.tenant in (None, tenant):
            found = scopes_at(binding)
            scopes |= found
            if binding.reach is Reach.EVERYWHERE:
                everywhere |= found
                if support and binding.role in (Role.VIEWER, Role.OPERATOR):
                    scopes |= PAYLOAD
            if binding.pool is not None:
                pools.add(binding.pool)
    return Rights(
        frozenset(scopes),
        None if Scope.NODES_WRITE in everywhere else frozenset(pools),
        frozenset(everywhere),
    )


def scopes_at(binding: Binding) -> frozenset[Scope]:
    """What a binding gives, where it counts."""
    return SCOPES.get((binding.role, binding.reach), frozenset())


def looks_into(binding: Binding, tenant: int) -> bool:
    """Whether it lets its principal see a tenant that is not theirs. Workers, and operators of one pool, need none."""
    return binding.tenant == tenant or (binding.reach is Reach.EVERYWHERE and binding.role is not Role.WORKER)


def changes_own_only(bindings: Iterable[Binding], tenant: int, *, share_control: bool) -> bool:
    """Whether the principal may cancel, hold and change only its own tasks at this tenant.

    `share_control`: the tenant lets its members change each other's tasks. Wider roles change the tasks of all.
    """
    wider = (
        binding.role is not Role.MEMBER and Scope.TASKS_CONTROL in scopes_at(binding)
        for binding in bindings
        if binding.tenant in (None, tenant)
    )
    return not share_control and not any(wider)


_WIDEST_FIRST = (Role.ADMIN, Role.OPERATOR, Role.MEMBER, Role.VIEWER, Role.WORKER)


def widest_role(bindings: Iterable[Binding], tenant: int) -> Role:
    """The role to show to people, of those that count at this tenant."""
    held = {binding.role for binding in bindings if binding.tenant in (None, tenant)}
    return next((role for role in _WIDEST_FIRST if role in held), Role.VIEWER)


def bindings_of_role(role: Role, tenant: int) -> tuple[Binding, ...]:
    """What a token has that was made before there were principals, by its role."""
    if role is Role.OPERATOR:
        return Binding(role=role), Binding(role=Role.VIEWER, tenant=tenant)
    return (Binding(role=role, tenant=None if role in (Role.ADMIN, Role.WORKER) else tenant),)
