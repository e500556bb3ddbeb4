"""Principals as the authenticator needs them: sessions, and other tenants that a principal looks into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from rota.model.accounts.permissions import Binding, Rights, rights
from rota.model.tenant import Plan
from rota.store.database import AnyConnection
from rota.store.statements import sql
from rota.store.tenants import bindings_of, plan_of


@dataclass(frozen=True, slots=True)
class FoundTenant:
    """A tenant as a request to it needs it."""

    id: int
    name: str
    plan: Plan
    trusted: bool
    support: bool
    share_control: bool


def _tenant(row: asyncpg.Record) -> FoundTenant:
    return FoundTenant(
        id=row["tenant_id"],
        name=row["tenant_name"],
        plan=plan_of(row),
        trusted=row["trusted"],
        support=row["support"],
        share_control=row["share_control"],
    )


async def find_tenant(connection: AnyConnection, name: str) -> FoundTenant | None:
    row = await connection.fetchrow(sql("accounts/find_tenant"), name)
    return None if row is None else _tenant(row)


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session that has not ended, whose user is not disabled."""

    id: int
    principal: int
    user: str
    proved: bool  # who the user is, a short time ago
    seen_long_ago: bool
    ends_at: datetime
    tenant: FoundTenant
    bindings: tuple[Binding, ...]


async def find_session(
    connection: AnyConnection, secret_hash: bytes, *, idle: timedelta, proof: timedelta
) -> FoundSession | None:
    """`idle`: how long it may be unused; `proof`: how long the proof of a password counts."""
    row = await connection.fetchrow(sql("accounts/find_session"), secret_hash, idle, proof)
    if row is None:
        return None
    return FoundSession(
        id=row["id"],
        principal=row["principal"],
        user=row["user_name"],
        proved=row["proved"],
        seen_long_ago=row["seen_long_ago"],
        ends_at=row["ends_at"],
        tenant=_tenant(row),
        bindings=bindings_of(row),
    )


async def ended_sessions(connection: AnyConnection, sessions: Sequence[int]) -> list[int]:
    """Those of the sessions that have ended."""
    return [row["id"] for row in await connection.fetch(sql("accounts/ended_sessions"), sessions)]


async def rights_now(connection: AnyConnection, whom: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Rights]:
    """Of each principal at a tenant, without those that are gone."""
    rows = await connection.fetch(
        sql("accounts/rights_now"), [principal for principal, _ in whom], [tenant for _, tenant in whom]
    )
    return {
        (row["principal"], row["tenant"]): rights(bindings_of(row), row["tenant"], support=row["support"])
        for row in rows
    }
