"""The first keys: what a fresh database needs before anybody can ask it for anything.

Made once, by whoever starts first, under the database's own uniqueness; kept in files only their owner can read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rota.admit.authenticate import hash_secret, make_key
from rota.model.tenant import Role
from rota.store import tenants
from rota.store.database import Connection, connect

TENANT = "default"
PLAN = "unlimited"


@dataclass(frozen=True, slots=True)
class FirstKeys:
    admin: str
    worker: str


async def ensure_first_keys(url: str, folder: Path) -> FirstKeys:
    """The keys kept in `folder`, made anew where they are missing or the database does not know them."""
    connection = await connect(url, {"application_name": "rota first keys"})
    try:
        await tenants.add_tenant(connection, TENANT, PLAN, trusted=True)
        tenant = next(row.id for row in await tenants.read_tenants(connection) if row.name == TENANT)
        return FirstKeys(
            admin=await _ensure(connection, folder / "admin.key", tenant, Role.ADMIN),
            worker=await _ensure(connection, folder / "worker.key", tenant, Role.WORKER),
        )
    finally:
        await connection.close()


async def has_keys(url: str) -> bool:
    connection = await connect(url, {"application_name": "rota first keys"})
    try:
        return bool(await connection.fetchval("select exists (select from tokens)"))
    finally:
        await connection.close()


async def _ensure(connection: Connection, path: Path, tenant: int, role: Role) -> str:
    kept = _read(path)
    if kept is not None and await _known(connection, kept):
        return kept
    key = make_key()
    await tenants.add_token(
        connection,
        public_id=key.public_id,
        secret_hash=key.secret_hash,
        tenant_id=tenant,
        user=role.value,
        role=role,
        expires=None,
    )
    _keep(path, key.text)
    return key.text


def _read(path: Path) -> str | None:
    return path.read_text().strip() if path.exists() else None


def _keep(path: Path, text: str) -> None:
    """Readable by its owner alone from its first moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")


async def _known(connection: Connection, text: str) -> bool:
    parts = text.split("_", 2)
    found = await tenants.find_token(connection, parts[1]) if len(parts) == 3 else None
    return found is not None and found[1] == hash_secret(parts[2])
