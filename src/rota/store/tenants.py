"""Tenants, plans, tokens and rate limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Literal

import asyncpg

from rota.model.accounts.permissions import Binding, Role, bindings_of_role
from rota.model.accounts.restrictions import UNRESTRICTED, Restrictions
from rota.model.resources import CpuLimit
from rota.model.tenant import Plan
from rota.store.database import AnyConnection
from rota.store.statements import sql

Numbered = Literal["schedules", "webhooks", "tokens", "secrets"]  # as the plan's field and the statement are named
# The first keys of advisory locks; the second is the tenant.
_LOCKS: dict[Numbered, int] = {"schedules": 7236011, "webhooks": 7236012, "tokens": 7236013, "secrets": 7236014}


def plan_of(row: asyncpg.Record) -> Plan:
    values = {field.name: row[field.name] for field in fields(Plan)}
    tiers, cpu_limit = row["tiers"], row["cpu_limit"]
    values["tiers"] = None if tiers is None else tuple(tiers)
    values["cpu_limit"] = None if cpu_limit is None else CpuLimit(cpu_limit)
    return Plan(**values)


async def read_plans(connection: AnyConnection) -> list[Plan]:
    rows = await connection.fetch(sql("tenants/read_plans"))
    return [plan_of(row) for row in rows]


async def save_plan(connection: AnyConnection, plan: Plan) -> None:
    await connection.execute(
        sql("tenants/save_plan"),
        plan.name,
        plan.tasks_per_hour,
        plan.burst,
        plan.waiting_tasks,
        plan.running_cpu_milli,
        plan.running_memory_bytes,
        plan.longest_cap_seconds,
        None if plan.tiers is None else list(plan.tiers),
        plan.weight,
        plan.running_tasks,
        plan.urgent_percent,
        plan.network,
        plan.storage_bytes,
        plan.tolerance_ms,
        plan.schedules,
        plan.webhooks,
        plan.tokens,
        plan.secrets,
        plan.graphs,
        plan.log_limit_bytes,
        plan.cpu_limit,
    )


@dataclass(frozen=True, slots=True)
class TenantRow:
    id: int
    name: str
    plan: str
    created_at: datetime
    trusted: bool
    paused: bool = False  # no further task of the tenant starts
    support: bool = False  # roles that hold everywhere see the payload of its tasks
    share_control: bool = True  # members may change each other's tasks


async def add_tenant(connection: AnyConnection, name: str, plan: str, *, trusted: bool = False) -> TenantRow | None:
    """None: the name is taken."""
    row = await connection.fetchrow(sql("tenants/add_tenant"), name, plan, trusted)
    return None if row is None else TenantRow(*row)


async def read_tenants(connection: AnyConnection) -> list[TenantRow]:
    rows = await connection.fetch(sql("tenants/read_tenants"))
    return [TenantRow(*row) for row in rows]


async def pause_tenant(connection: AnyConnection, name: str, paused: bool) -> TenantRow | None:
    """None: there is no such tenant. Leaders notice when they next read the tenants' limits."""
    row = await connection.fetchrow(sql("tenants/pause_tenant"), name, paused)
    return None if row is None else TenantRow(*row)


async def save_settings(connection: AnyConnection, tenant: TenantRow) -> None:
    """What administrators of the tenant decide: `support` and `share_control`."""
    await connection.execute(sql("tenants/save_settings"), tenant.name, tenant.support, tenant.share_control)


async def save_tenant(connection: AnyConnection, name: str, *, plan: str, trusted: bool) -> None:
    await connection.execute(sql("tenants/save_tenant"), name, plan, trusted)


@dataclass(frozen=True, slots=True)
class TokenRow:
    id: int
    public_id: str
    tenant_id: int
    tenant: str
    user: str
    role: Role
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    owner: int | None  # None: made before there were principals
    name: str | None
    scopes: tuple[str, ...] | None  # None: all that its role has
    created_by: str
    used_at: datetime | None
    used_from: str | None
    replaced_by: int | None  # by rotation: the token that people should use now
    restrictions: Restrictions


def token_of(row: asyncpg.Record) -> TokenRow:
    restrictions = Restrictions(
        pools=tuple(row["pools"] or ()),
        names=tuple(row["names"] or ()),
        own=row["own"],
        networks=tuple(row["addresses"] or ()),
    )
    return TokenRow(
        id=row["id"],
        public_id=row["public_id"],
        tenant_id=row["tenant"],
        tenant=row["tenant_name"],
        user=row["user_name"],
        role=Role(row["role"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        owner=row["owner"],
        name=row["token_name"],  # a plan has a name too
        scopes=None if row["scopes"] is None else tuple(row["scopes"]),
        created_by=row["created_by"],
        used_at=row["used_at"],
        used_from=row["used_from"],
        replaced_by=row["replaced_by"],
        restrictions=UNRESTRICTED if restrictions == UNRESTRICTED else restrictions,
    )


async def add_token(
    connection: AnyConnection,
    *,
    public_id: str,
    secret_hash: bytes,
    tenant_id: int,
    user: str,
    role: Role,
    expires: timedelta | datetime | None,
    owner: int | None = None,
    name: str | None = None,
    scopes: Sequence[str] | None = None,
    restrictions: Restrictions = UNRESTRICTED,
    by: str = "",
) -> int:
    """`owner` None: it has the rights of its role, whatever becomes of its user."""
    number = await connection.fetchval(
        sql("tenants/add_token"),
        public_id,
        secret_hash,
        tenant_id,
        user,
        role.value,
        expires if isinstance(expires, datetime) else None,
        expires if isinstance(expires, timedelta) else None,
        owner,
        name,
        scopes,
        restrictions.pools or None,
        restrictions.names or None,
        restrictions.own,
        restrictions.networks or None,
        by,
    )
    return int(number)


async def has_tokens(connection: AnyConnection) -> bool:
    return bool(await connection.fetchval(sql("tenants/has_tokens")))


async def ended_tokens(connection: AnyConnection, tokens: Sequence[int]) -> list[int]:
    """Those of the tokens that are revoked, expired or gone."""
    return [row["id"] for row in await connection.fetch(sql("tenants/ended_tokens"), tokens)]


async def ended_attempts(connection: AnyConnection, attempts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of the attempts, each a task and a number, that do not run or are being stopped."""
    rows = await connection.fetch(
        sql("tenants/ended_attempts"), [task for task, _ in attempts], [number for _, number in attempts]
    )
    return [(row["task"], row["attempt"]) for row in rows]


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A token that is neither revoked nor expired, whose owner is not disabled."""

    row: TokenRow
    secret_hash: bytes
    plan: Plan
    trusted: bool
    support: bool
    share_control: bool
    is_users: bool  # its owner is a user
    bindings: tuple[Binding, ...]


async def find_token(connection: AnyConnection, public_id: str) -> FoundToken | None:
    row = await connection.fetchrow(sql("tenants/find_token"), public_id)
    if row is None:
        return None
    token = token_of(row)
    return FoundToken(
        row=token,
        secret_hash=row["secret_hash"],
        plan=plan_of(row),
        trusted=row["trusted"],
        support=row["support"],
        share_control=row["share_control"],
        is_users=row["owner_kind"] == "user",
        bindings=bindings_of(row) if token.owner is not None else bindings_of_role(token.role, token.tenant_id),
    )


def bindings_of(row: asyncpg.Record) -> tuple[Binding, ...]:
    """From the columns of `accounts/binding_arrays`."""
    parts = zip(row["binding_roles"], row["binding_tenants"], row["binding_pools"], strict=True)
    return tuple(Binding(role=Role(role), tenant=tenant, pool=pool) for role, tenant, pool in parts)


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """The owner of a running attempt whose task may submit."""

    tenant_id: int
    tenant: str
    user: str
    plan: Plan
    trusted: bool
    graph: int  # the outermost one that the task is in
    spec_head: str  # the beginning of its spec, which names its secrets
    is_isolated: bool


async def find_attempt(connection: AnyConnection, task: int, attempt: int) -> AttemptRow | None:
    """None: it does not run, or is to be stopped."""
    row = await connection.fetchrow(sql("tenants/find_attempt"), task, attempt)
    if row is None:
        return None
    return AttemptRow(
        tenant_id=row["tenant_id"],
        tenant=row["tenant"],
        user=row["user_name"],
        plan=plan_of(row),
        trusted=row["trusted"],
        graph=row["graph"],
        spec_head=row["spec_head"],
        is_isolated=row["isolation"] is not None,
    )


async def revoke_token(connection: AnyConnection, number: int) -> bool:
    done = await connection.fetchval(sql("tenants/revoke_token"), number)
    return done is not None


async def take_rate(
    connection: AnyConnection, tenant: int, *, tasks: int, interval: timedelta, ahead: timedelta
) -> bool:
    """One step of the generic cell rate algorithm for a whole batch or nothing. One row serves all nodes.

    The row is in the units of the plan that it was written under; after a change of plan it is converted first.
    """
    limits = (interval, ahead)
    taken = await connection.fetchval(sql("tenants/take_rate"), tenant, tasks, *limits)
    if taken is None and await connection.fetchval(sql("tenants/convert_rate"), tenant, *limits) is not None:
        taken = await connection.fetchval(sql("tenants/take_rate"), tenant, tasks, *limits)
    return taken is not None


async def rate_backlog(connection: AnyConnection, tenant: int, *, interval: timedelta, ahead: timedelta) -> float:
    """How far the tenant is ahead of this rate, in seconds."""
    seconds = await connection.fetchval(sql("tenants/rate_backlog"), tenant, interval, ahead)
    return float(seconds or 0.0)


async def count_waiting(connection: AnyConnection, tenant: int, *, up_to: int) -> int:
    """The number of a tenant's live tasks, counted up to `up_to`."""
    number = await connection.fetchval(sql("tenants/count_waiting"), tenant, up_to)
    return int(number)


async def count_and_lock(connection: AnyConnection, tenant: int, what: Numbered) -> int:
    """How many the tenant has. Nobody else counts these until the transaction ends, so that none is added meanwhile."""
    await connection.execute(sql("tenants/lock_number"), _LOCKS[what], tenant)
    return int(await connection.fetchval(sql(f"tenants/count_{what}"), tenant))
