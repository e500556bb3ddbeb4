"""Principals, users and service accounts, and their bindings: the roles that they have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import asyncpg

from rota.model.accounts.permissions import Binding, Role
from rota.store.database import AnyConnection
from rota.store.statements import sql

Kind = Literal["user", "service"]
Source = Literal["local", "oidc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingRow:
    """A role at a tenant, at a pool, or everywhere."""

    role: Role
    tenant_id: int | None
    tenant: str | None
    pool: str | None
    source: Source
    granted_at: datetime
    granted_by: str

    @property
    def binding(self) -> Binding:
        return Binding(role=self.role, tenant=self.tenant_id, pool=self.pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalRow:
    id: int
    kind: Kind
    name: str
    tenant_id: int | None  # of a service account
    tenant: str | None
    email: str | None
    created_at: datetime
    created_by: str
    disabled_at: datetime | None
    signed_in_at: datetime | None
    bindings: tuple[BindingRow, ...] = ()


def _principal(row: asyncpg.Record) -> PrincipalRow:
    fields = {name: value for name, value in row.items() if name != "tenant_name"}
    return PrincipalRow(tenant=row["tenant_name"], **fields)


async def _with_bindings(connection: AnyConnection, rows: Iterable[asyncpg.Record]) -> list[PrincipalRow]:
    found = {row["id"]: _principal(row) for row in rows}
    bindings: dict[int, list[BindingRow]] = {number: [] for number in found}
    for row in await connection.fetch(sql("accounts/read_bindings"), list(found)):
        bindings[row["principal"]].append(
            BindingRow(
                role=Role(row["role"]),
                tenant_id=row["tenant_id"],
                tenant=row["tenant_name"],
                pool=row["pool"],
                source=row["source"],
                granted_at=row["granted_at"],
                granted_by=row["granted_by"],
            )
        )
    return [replace(principal, bindings=tuple(bindings[number])) for number, principal in found.items()]


async def _one(connection: AnyConnection, statement: str, *arguments: object) -> PrincipalRow | None:
    found = await _with_bindings(connection, await connection.fetch(sql(statement), *arguments))
    return found[0] if found else None


async def find_principal(connection: AnyConnection, number: int) -> PrincipalRow | None:
    return await _one(connection, "accounts/find_principal", number)


async def find_user(connection: AnyConnection, name: str) -> PrincipalRow | None:
    """By name or by mail address, in any case of letters."""
    return await _one(connection, "accounts/find_user", name)


async def find_service(connection: AnyConnection, name: str, tenant_id: int) -> PrincipalRow | None:
    return await _one(connection, "accounts/find_service", name, tenant_id)


async def name_taken(connection: AnyConnection, text: str, *, services: bool, but: int | None = None) -> bool:
    """Whether a user has this name or mail address; `services`: or a service account the name."""
    return bool(await connection.fetchval(sql("accounts/name_taken"), text, services, but))


async def read_principals(
    connection: AnyConnection, kind: Kind, *, tenant_id: int | None, after: str = "", limit: int
) -> list[PrincipalRow]:
    """By name. `tenant_id`: those with a role at this tenant, or that belong to it; None: all."""
    return await _with_bindings(
        connection, await connection.fetch(sql("accounts/read_principals"), kind, tenant_id, after, limit)
    )


async def add_principal(
    connection: AnyConnection, *, kind: Kind, name: str, tenant_id: int | None, email: str | None, by: str
) -> PrincipalRow | None:
    """None: the name or the address is taken. `tenant_id`: of a service account."""
    return await _one(connection, "accounts/add_principal", kind, name, tenant_id, email, by)


async def add_binding(
    connection: AnyConnection, principal: int, binding: Binding, *, by: str, source: Source = "local"
) -> bool:
    """False: the principal has it."""
    return (
        await connection.fetchval(
            sql("accounts/add_binding"), principal, binding.role.value, binding.tenant, binding.pool, source, by
        )
        is not None
    )


async def remove_binding(
    connection: AnyConnection, principal: int, binding: Binding, *, source: Source = "local"
) -> bool:
    """False: the principal does not have it."""
    return (
        await connection.fetchval(
            sql("accounts/remove_binding"), principal, binding.role.value, binding.tenant, binding.pool, source
        )
        is not None
    )


async def set_email(connection: AnyConnection, number: int, email: str | None) -> bool:
    """False: another principal has the address."""
    try:
        await connection.execute(sql("accounts/set_email"), number, email)
    except asyncpg.UniqueViolationError:
        return False
    return True


async def disable_principal(connection: AnyConnection, number: int, disabled: bool) -> None:
    """A disabled principal has no rights: neither its tokens nor its sessions count."""
    await connection.execute(sql("accounts/disable_principal"), number, disabled)


async def remove_principal(connection: AnyConnection, number: int) -> None:
    """With its bindings, tokens and sessions."""
    await connection.execute(sql("accounts/remove_principal"), number)


async def lock_accounts(connection: AnyConnection) -> None:
    """Until the transaction ends, nobody else changes roles that must not all be lost."""
    await connection.execute(sql("accounts/lock_bindings"))


async def administrators(connection: AnyConnection) -> list[int]:
    """Principals that are administrators everywhere and not disabled."""
    return [row["id"] for row in await connection.fetch(sql("accounts/administrators"))]
