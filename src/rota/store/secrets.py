"""Secrets as rows: sealed before they come here, opened after they leave. Nothing here sees a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.store.database import AnyConnection
from rota.store.envelope import Place, Sealed
from rota.store.statements import sql


@dataclass(frozen=True, slots=True)
class SecretRow:
    name: str
    version: int
    created_by: str
    created_at: datetime
    changed_by: str
    changed_at: datetime


_COLUMNS = "name, version, created_by, created_at, changed_by, changed_at"


async def save_secret(connection: AnyConnection, place: Place, sealed: Sealed, user: str) -> SecretRow:
    row = await connection.fetchrow(
        f"""insert into secrets (tenant, name, key_id, wrapped_key, ciphertext, created_by, changed_by)
            values ($1, $2, $3, $4, $5, $6, $6)
            on conflict (tenant, name) do update set version = secrets.version + 1, key_id = $3, wrapped_key = $4,
                ciphertext = $5, changed_by = $6, changed_at = now()
            returning {_COLUMNS}""",
        place.tenant, place.name, sealed.key_id, sealed.wrapped_key, sealed.ciphertext, user,
    )  # fmt: skip
    assert row is not None, "an upsert gives its row back"
    return SecretRow(*row)


async def list_secrets(connection: AnyConnection, tenant: int) -> list[SecretRow]:
    rows = await connection.fetch(f"select {_COLUMNS} from secrets where tenant = $1 order by name", tenant)
    return [SecretRow(*row) for row in rows]


async def remove_secret(connection: AnyConnection, place: Place) -> bool:
    gone = await connection.fetchval(
        "delete from secrets where tenant = $1 and name = $2 returning name", place.tenant, place.name
    )
    return gone is not None


async def names_known(connection: AnyConnection, tenant: int, names: Sequence[str]) -> set[str]:
    rows = await connection.fetch("select name from secrets where tenant = $1 and name = any($2)", tenant, list(names))
    return {row[0] for row in rows}


async def read_sealed(connection: AnyConnection, places: Sequence[Place]) -> dict[Place, Sealed]:
    """Those of them that are there, in one statement."""
    rows = await connection.fetch(
        sql("read_secrets"), [place.tenant for place in places], [place.name for place in places]
    )
    return {Place(row[0], row[1]): Sealed(row[2], row[3], row[4]) for row in rows}


# ---- rotation ------------------------------------------------------------------------------------------------------


async def sealed_otherwise(
    connection: AnyConnection, key_id: str, *, after: Place, limit: int
) -> list[tuple[Place, Sealed]]:
    """Secrets of all tenants whose data key another master key wraps, past a place, in order."""
    rows = await connection.fetch(
        """select tenant, name, key_id, wrapped_key, ciphertext from secrets
            where key_id <> $1 and (tenant, name) > ($2, $3) order by tenant, name limit $4""",
        key_id, after.tenant, after.name, limit,
    )  # fmt: skip
    return [(Place(row[0], row[1]), Sealed(row[2], row[3], row[4])) for row in rows]


async def save_rewrapped(connection: AnyConnection, place: Place, before: Sealed, after: Sealed) -> bool:
    """False: it got another value meanwhile, or is gone; either way there is nothing left to do."""
    done = await connection.fetchval(
        """update secrets set key_id = $3, wrapped_key = $4
            where tenant = $1 and name = $2 and wrapped_key = $5 returning name""",
        place.tenant, place.name, after.key_id, after.wrapped_key, before.wrapped_key,
    )  # fmt: skip
    return done is not None


async def count_by_key(connection: AnyConnection) -> dict[str, int]:
    return {row[0]: row[1] for row in await connection.fetch("select key_id, count(*) from secrets group by key_id")}
