"""Tenants, plans, tokens: who may do how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from rota.model.tenant import Plan, Role
from rota.store.database import AnyConnection

_PLAN_COLUMNS = """name, tasks_per_hour, burst, waiting_tasks, running_cpu_milli, running_memory_bytes,
    longest_cap_seconds, tiers, weight, running_tasks, urgent_percent, network, storage_bytes"""

_PLAN_OF_TOKEN = ", ".join(f"plans.{column.strip()}" for column in _PLAN_COLUMNS.split(","))


def plan_of(row: asyncpg.Record) -> Plan:
    return Plan(
        name=row["name"], tasks_per_hour=row["tasks_per_hour"], burst=row["burst"],
        waiting_tasks=row["waiting_tasks"], running_cpu_milli=row["running_cpu_milli"],
        running_memory_bytes=row["running_memory_bytes"], longest_cap_seconds=row["longest_cap_seconds"],
        tiers=tuple(row["tiers"]), weight=row["weight"], running_tasks=row["running_tasks"],
        urgent_percent=row["urgent_percent"], network=row["network"], storage_bytes=row["storage_bytes"],
    )  # fmt: skip


async def read_plans(connection: AnyConnection) -> list[Plan]:
    rows = await connection.fetch(f"select {_PLAN_COLUMNS} from plans order by weight, name")
    return [plan_of(row) for row in rows]


async def save_plan(connection: AnyConnection, plan: Plan) -> None:
    await connection.execute(
        """update plans set tasks_per_hour = $2, burst = $3, waiting_tasks = $4, running_cpu_milli = $5,
            running_memory_bytes = $6, longest_cap_seconds = $7, tiers = $8, weight = $9, running_tasks = $10,
            urgent_percent = $11, network = $12, storage_bytes = $13 where name = $1""",
        plan.name, plan.tasks_per_hour, plan.burst, plan.waiting_tasks, plan.running_cpu_milli,
        plan.running_memory_bytes, plan.longest_cap_seconds, list(plan.tiers), plan.weight,
        plan.running_tasks, plan.urgent_percent, plan.network, plan.storage_bytes,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TenantRow:
    id: int
    name: str
    plan: str
    created_at: datetime
    trusted: bool
    paused: bool = False  # nothing new of it starts


async def add_tenant(connection: AnyConnection, name: str, plan: str, *, trusted: bool = False) -> TenantRow | None:
    """None when the name is taken."""
    row = await connection.fetchrow(
        """insert into tenants (name, plan, trusted) values ($1, $2, $3) on conflict (name) do nothing
            returning id, name, plan, created_at, trusted, paused""",
        name, plan, trusted,
    )  # fmt: skip
    return None if row is None else TenantRow(*row)


async def read_tenants(connection: AnyConnection) -> list[TenantRow]:
    rows = await connection.fetch("select id, name, plan, created_at, trusted, paused from tenants order by id")
    return [TenantRow(*row) for row in rows]


async def pause_tenant(connection: AnyConnection, name: str, paused: bool) -> TenantRow | None:
    """None: there is no such tenant. Leaders hear of it as they look at tenants' limits."""
    row = await connection.fetchrow(
        """update tenants set paused = $2 where name = $1
            returning id, name, plan, created_at, trusted, paused""",
        name, paused,
    )  # fmt: skip
    return None if row is None else TenantRow(*row)


async def save_tenant(connection: AnyConnection, name: str, *, plan: str, trusted: bool) -> None:
    await connection.execute("update tenants set plan = $2, trusted = $3 where name = $1", name, plan, trusted)


@dataclass(frozen=True, slots=True)
class TokenRow:
    id: int
    public_id: str
    tenant_id: int
    tenant: str
    user: str
    role: Role
    pools: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


_TOKEN_COLUMNS = """tokens.id, tokens.public_id, tokens.tenant, tenants.name, tokens.user_name, tokens.role,
    tokens.pools, tokens.created_at, tokens.expires_at, tokens.revoked_at"""


def _token(row: Sequence[object]) -> TokenRow:
    number, public_id, tenant_id, tenant, user, role, pools, created, expires, revoked = row
    return TokenRow(
        number, public_id, tenant_id, tenant, user, Role(str(role)), tuple(pools or ()), created, expires, revoked  # type: ignore[arg-type]
    )  # fmt: skip


async def add_token(
    connection: AnyConnection,
    *,
    public_id: str,
    secret_hash: bytes,
    tenant_id: int,
    user: str,
    role: Role,
    expires: timedelta | datetime | None,
) -> int:
    number = await connection.fetchval(
        """insert into tokens (public_id, secret_hash, tenant, user_name, role, expires_at)
            values ($1, $2, $3, $4, $5, coalesce($6::timestamptz, now() + $7::interval)) returning id""",
        public_id, secret_hash, tenant_id, user, role.value,
        expires if isinstance(expires, datetime) else None, expires if isinstance(expires, timedelta) else None,
    )  # fmt: skip
    return int(number)


async def read_tokens(connection: AnyConnection) -> list[TokenRow]:
    rows = await connection.fetch(
        f"select {_TOKEN_COLUMNS} from tokens join tenants on tenants.id = tokens.tenant order by tokens.id"
    )
    return [_token(list(row)) for row in rows]


async def find_token(connection: AnyConnection, public_id: str) -> tuple[TokenRow, bytes, Plan, bool] | None:
    """A token that is neither revoked nor expired, with its hash, its tenant's plan, and whether that is trusted."""
    row = await connection.fetchrow(
        f"""select {_TOKEN_COLUMNS}, tokens.secret_hash, {_PLAN_OF_TOKEN}, tenants.trusted
            from tokens join tenants on tenants.id = tokens.tenant join plans on plans.name = tenants.plan
            where tokens.public_id = $1 and tokens.revoked_at is null
                and (tokens.expires_at is null or tokens.expires_at > now())""",
        public_id,
    )
    if row is None:
        return None
    columns = list(row)
    plan = Plan(
        name=columns[11], tasks_per_hour=columns[12], burst=columns[13], waiting_tasks=columns[14],
        running_cpu_milli=columns[15], running_memory_bytes=columns[16], longest_cap_seconds=columns[17],
        tiers=tuple(columns[18]), weight=columns[19], running_tasks=columns[20], urgent_percent=columns[21],
        network=columns[22], storage_bytes=columns[23],
    )  # fmt: skip
    return _token(columns[:10]), columns[10], plan, columns[24]


async def revoke_token(connection: AnyConnection, number: int) -> bool:
    done = await connection.fetchval(
        "update tokens set revoked_at = coalesce(revoked_at, now()) where id = $1 returning id", number
    )
    return done is not None


async def take_rate(
    connection: AnyConnection, tenant: int, *, tasks: int, interval: timedelta, burst: timedelta
) -> bool:
    """One step of the generic cell rate algorithm, whole batch or nothing. Right across all nodes: it is one row."""
    taken = await connection.fetchval(
        """insert into rate_limits (tenant, arrival) values ($1, clock_timestamp() + $2 * $3::interval)
            on conflict (tenant) do update
                set arrival = greatest(rate_limits.arrival, clock_timestamp()) + $2 * $3::interval
            where greatest(rate_limits.arrival, clock_timestamp()) + $2 * $3::interval
                <= clock_timestamp() + $4::interval
            returning tenant""",
        tenant, tasks, interval, burst,
    )  # fmt: skip
    return taken is not None


async def rate_backlog(connection: AnyConnection, tenant: int) -> float:
    """How far ahead of time the tenant has submitted, in seconds."""
    seconds = await connection.fetchval(
        """select greatest(0, extract(epoch from arrival - clock_timestamp()))::float8
            from rate_limits where tenant = $1""",
        tenant,
    )
    return float(seconds or 0.0)


async def count_waiting(connection: AnyConnection, tenant: int, *, up_to: int) -> int:
    """Live tasks of a tenant, counted no further than needed."""
    number = await connection.fetchval(
        """select count(*) from (
            select 1 from pools join queue on queue.pool = pools.id and queue.tenant = $1 limit $2) counted""",
        tenant, up_to,
    )  # fmt: skip
    return int(number)


async def audit(connection: AnyConnection, *, tenant: int, user: str, action: str, target: str) -> None:
    await connection.execute(
        "insert into audit (tenant, user_name, action, target) values ($1, $2, $3, $4)",
        tenant,
        user,
        action,
        target,
    )
