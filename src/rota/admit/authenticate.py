"""Keys: made once, shown once, stored as a hash; a request's key becomes a `Caller`.

A key reads `rota_<public id>_<secret>`; the public id finds the row, the secret is compared in constant time. Look-ups
are remembered for a few seconds, so a revoked key stops working on every node within `REMEMBER_SECONDS`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass

from rota.model.errors import Problem
from rota.model.tenant import Caller
from rota.store.database import Database
from rota.store.tenants import find_token

REMEMBER_SECONDS = 5.0
MOST_REMEMBERED = 10_000

_KEY = re.compile(r"^rota_([a-z0-9]{12})_([A-Za-z0-9_-]{43})$", re.ASCII)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class NewKey:
    text: str
    public_id: str
    secret_hash: bytes


def make_key() -> NewKey:
    public_id = "".join(secrets.choice(_ALPHABET) for _ in range(12))
    secret = secrets.token_urlsafe(32)
    return NewKey(f"rota_{public_id}_{secret}", public_id, hash_secret(secret))


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def unauthorized() -> Problem:
    """One answer for a missing, malformed, unknown, revoked and expired key."""
    return Problem(
        "unauthorized", status=401, title="Unauthorized",
        detail="send a valid key: `Authorization: Bearer rota_…`",
    )  # fmt: skip


class Authenticator:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[bytes, tuple[float, Caller]] = {}

    async def caller(self, authorization: str | None) -> Caller:
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise unauthorized()
        remembered = self._known.get(digest := hashlib.sha256(key.encode(errors="replace")).digest())
        if remembered is not None and time.monotonic() < remembered[0]:
            return remembered[1]
        caller = await self._look_up(key)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[digest] = (time.monotonic() + REMEMBER_SECONDS, caller)
        return caller

    async def _look_up(self, key: str) -> Caller:
        match = _KEY.match(key.strip())
        if match is None:
            raise unauthorized()
        async with self._database.engine() as connection:
            found = await find_token(connection, match[1])
        if found is None or not hmac.compare_digest(found[1], hash_secret(match[2])):
            raise unauthorized()
        token, _, plan, trusted = found
        return Caller(
            token_id=token.id, tenant_id=token.tenant_id, tenant=token.tenant, user=token.user, role=token.role,
            plan=plan, trusted=trusted,
        )  # fmt: skip
