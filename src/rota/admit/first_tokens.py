"""The first token of a fresh database, for its administrator.

The node that starts first makes it; a unique constraint keeps a second node from doing so too. It is kept in a file
that only its owner can read. Workers have none: they join with worker keys, which the administrator makes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rota.admit.authenticate import hash_secret, make_token
from rota.model.accounts.permissions import Role
from rota.store import tenants
from rota.store.database import Connection, connect

TENANT = "default"
PLAN = "unlimited"


@dataclass(frozen=True, slots=True)
class FirstTokens:
    admin: str


async def ensure_first_tokens(url: str, folder: Path) -> FirstTokens:
    """Reads the token in `folder`; replaces it if it is missing or unknown to the database."""
    connection = await connect(url, {"application_name": "rota first tokens"})
    try:
        await tenants.add_tenant(connection, TENANT, PLAN, trusted=True)
        tenant = next(row.id for row in await tenants.read_tenants(connection) if row.name == TENANT)
        return FirstTokens(
            admin=await _ensure(connection, folder / "admin.token", tenant, Role.ADMIN),
        )
    finally:
        await connection.close()


async def has_tokens(url: str) -> bool:
    connection = await connect(url, {"application_name": "rota first tokens"})
    try:
        return await tenants.has_tokens(connection)
    finally:
        await connection.close()


async def _ensure(connection: Connection, path: Path, tenant: int, role: Role) -> str:
    kept = _read(path)
    parts = kept.split("_", 2) if kept is not None else []
    found = await tenants.find_token(connection, parts[1]) if len(parts) == 3 else None
    if kept is not None and found is not None and found.secret_hash == hash_secret(parts[2]):
        return kept
    token = make_token()
    await tenants.add_token(
        connection,
        public_id=token.public_id,
        secret_hash=token.secret_hash,
        tenant_id=tenant,
        user=role.value,
        role=role,
        expires=None,
    )
    _keep(path, token.text)
    return token.text


def _read(path: Path) -> str | None:
    return path.read_text().strip() if path.exists() else None


def _keep(path: Path, text: str) -> None:
    """Created with mode 0600: nobody else can read the file at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
