"""Tokens: made once, shown once, stored as a hash. The `Authenticator` turns a request's token into a `Caller`.

The key of a running task (`model/attempt_key.py`) is stored nowhere: its signature is checked, then whether its attempt
still runs.

A token has the form `rota_<public id>_<secret>`. The public id finds the row, the secret is compared in constant time.
Look-ups are cached, so a revoked token, the end of an attempt or a changed plan holds on every node within
`REMEMBER_SECONDS`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass

from rota.attempt_key import PREFIX, AttemptKeys
from rota.model.errors import Problem
from rota.model.secret import names_in_spec
from rota.model.tenant import Caller, Role, SubmittingTask
from rota.store.database import Database
from rota.store.tenants import find_attempt, find_token

REMEMBER_SECONDS = 1.5
MOST_REMEMBERED = 10_000

_TOKEN = re.compile(r"^rota_([a-z0-9]{12})_([A-Za-z0-9_-]{43})$", re.ASCII)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class NewToken:
    text: str
    public_id: str
    secret_hash: bytes


def make_token() -> NewToken:
    public_id = "".join(secrets.choice(_ALPHABET) for _ in range(12))
    secret = secrets.token_urlsafe(32)
    return NewToken(f"rota_{public_id}_{secret}", public_id, hash_secret(secret))


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def unauthorized() -> Problem:
    """One answer for a missing, malformed, unknown, revoked and expired token."""
    detail = "send a valid token: `Authorization: Bearer rota_…`"
    return Problem("unauthorized", status=401, title="Unauthorized", detail=detail)


def key_is_over(task: int, attempt: int) -> Problem:
    detail = f"this is the key of attempt {attempt} of task {task}, which has ended or is being stopped"
    return Problem("unauthorized", status=401, title="Unauthorized", detail=detail)


class Authenticator:
    def __init__(self, database: Database, attempt_keys: AttemptKeys) -> None:
        self._database = database
        self._attempt_keys = attempt_keys
        self._remembered: dict[bytes, tuple[float, Caller]] = {}

    async def caller(self, authorization: str | None) -> Caller:
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise unauthorized()
        remembered = self._remembered.get(digest := hashlib.sha256(text.encode(errors="replace")).digest())
        if remembered is not None and time.monotonic() < remembered[0]:
            return remembered[1]
        known = self._remembered  # a new one if a change is made during the look-up
        caller = await self._look_up(text)
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        known[digest] = (time.monotonic() + REMEMBER_SECONDS, caller)
        return caller

    def forget(self) -> None:
        """Tokens, tenants or plans were changed through this node: the next requests see them as they are."""
        self._remembered = {}

    async def _look_up(self, text: str) -> Caller:
        if text.startswith(PREFIX):
            return await self._look_up_attempt(text)
        match = _TOKEN.match(text.strip())
        if match is None:
            raise unauthorized()
        async with self._database.engine() as connection:
            found = await find_token(connection, match[1])
        if found is None or not hmac.compare_digest(found[1], hash_secret(match[2])):
            raise unauthorized()
        token, _, plan, trusted = found
        return Caller(
            token_id=token.id,
            tenant_id=token.tenant_id,
            tenant=token.tenant,
            user=token.user,
            role=token.role,
            plan=plan,
            trusted=trusted,
        )

    async def _look_up_attempt(self, text: str) -> Caller:
        key = self._attempt_keys.read(text.strip())
        if key is None:
            raise unauthorized()
        task, attempt = key
        async with self._database.engine() as connection:
            found = await find_attempt(connection, task, attempt)
        if found is None:
            raise key_is_over(task, attempt)
        return Caller(
            token_id=0,
            tenant_id=found.tenant_id,
            tenant=found.tenant,
            user=found.user,
            role=Role.MEMBER,
            plan=found.plan,
            trusted=found.trusted and not found.is_isolated,  # what it submits is isolated too
            task=SubmittingTask(
                id=task,
                attempt=attempt,
                graph=found.graph,
                secrets=frozenset(names_in_spec(found.spec_head)),
            ),
        )
