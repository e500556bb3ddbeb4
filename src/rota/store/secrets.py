"""Secrets as rows. The values are sealed and opened elsewhere (`envelope.py`); this module must never see one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.store.database import AnyConnection
from rota.store.envelope import Sealed, SecretName
from rota.store.statements import columns, sql


@dataclass(frozen=True, slots=True)
class SecretRow:
    name: str
    version: int
    created_by: str
    created_at: datetime
    changed_by: str
    changed_at: datetime


async def save_secret(connection: AnyConnection, secret_name: SecretName, sealed: Sealed, user: str) -> SecretRow:
    row = await connection.fetchrow(
        sql("secrets/save_secret"),
        secret_name.tenant,
        secret_name.name,
        sealed.key_id,
        sealed.wrapped_key,
        sealed.ciphertext,
        user,
    )
    assert row is not None, "an upsert gives its row back"
    return SecretRow(*row)


async def list_secrets(connection: AnyConnection, tenant: int) -> list[SecretRow]:
    rows = await connection.fetch(sql("secrets/list_secrets"), tenant)
    return [SecretRow(*row) for row in rows]


async def remove_secret(connection: AnyConnection, secret_name: SecretName) -> bool:
    gone = await connection.fetchval(sql("secrets/remove_secret"), secret_name.tenant, secret_name.name)
    return gone is not None


async def names_known(connection: AnyConnection, tenant: int, names: Sequence[str]) -> set[str]:
    rows = await connection.fetch(sql("secrets/names_known"), tenant, list(names))
    return {row[0] for row in rows}


async def read_sealed(connection: AnyConnection, secret_names: Sequence[SecretName]) -> dict[SecretName, Sealed]:
    """The sealed values of the secrets that exist, in one statement."""
    rows = await connection.fetch(sql("secrets/read_secrets"), *columns(secret_names, "tenant", "name"))
    return {SecretName(row[0], row[1]): Sealed(row[2], row[3], row[4]) for row in rows}


# ---- rotation ------------------------------------------------------------------------------------------------------


async def sealed_otherwise(
    connection: AnyConnection, key_id: str, *, after: SecretName, limit: int
) -> list[tuple[SecretName, Sealed]]:
    """Secrets of all tenants whose data key is wrapped by another master key, after (tenant, name), in order."""
    rows = await connection.fetch(sql("secrets/sealed_otherwise"), key_id, after.tenant, after.name, limit)
    return [(SecretName(row[0], row[1]), Sealed(row[2], row[3], row[4])) for row in rows]


async def save_rewrapped(connection: AnyConnection, secret_name: SecretName, before: Sealed, after: Sealed) -> bool:
    """False: the secret changed or is gone, so there is nothing left to do."""
    done = await connection.fetchval(
        sql("secrets/save_rewrapped"),
        secret_name.tenant,
        secret_name.name,
        after.key_id,
        after.wrapped_key,
        before.wrapped_key,
    )
    return done is not None


async def count_by_key(connection: AnyConnection) -> dict[str, int]:
    return {row[0]: row[1] for row in await connection.fetch(sql("secrets/count_by_key"))}
