"""Keys: long, stored as a hash only, told apart by nothing but being valid."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest

from rota.admit import authenticate
from rota.admit.authenticate import Authenticator, NewKey, hash_secret, make_key
from rota.model.errors import Problem
from rota.model.tenant import Role
from rota.store import tenants
from tests.admit.node import Node


async def _stored(node: Node, *, expires_in: timedelta | None = None) -> tuple[NewKey, int]:
    caller = await node.caller()
    key = make_key()
    async with node.database.engine() as connection:
        number = await tenants.add_token(
            connection, public_id=key.public_id, secret_hash=key.secret_hash, tenant_id=caller.tenant_id, user="ann",
            role=Role.VIEWER, expires=expires_in,
        )  # fmt: skip
    return key, number


def test_a_key_has_at_least_192_random_bits_and_no_two_are_alike() -> None:
    keys = [make_key() for _ in range(50)]
    secrets = [key.text.split("_", 2)[2] for key in keys]
    assert len({*secrets}) == len({key.public_id for key in keys}) == 50
    assert all(len(base64.urlsafe_b64decode(secret + "=")) * 8 >= 192 for secret in secrets)


async def test_a_valid_key_says_who_is_asking(node: Node) -> None:
    key, number = await _stored(node)
    caller = await Authenticator(node.database).caller(f"Bearer {key.text}")
    assert (caller.token_id, caller.user, caller.role, caller.plan.name) == (number, "ann", Role.VIEWER, "unlimited")


async def test_the_database_never_holds_a_key(node: Node) -> None:
    key, _ = await _stored(node)
    secret = key.text.split("_", 2)[2]
    async with node.database.engine() as connection:
        rows = await connection.fetch("select tokens::text from tokens")
        stored = await connection.fetchval("select secret_hash from tokens where public_id = $1", key.public_id)
    assert not any(secret in row[0] for row in rows)
    assert stored == hash_secret(secret)


async def test_missing_malformed_unknown_wrong_expired_and_revoked_keys_get_one_answer(node: Node) -> None:
    good, _ = await _stored(node)
    expired, _ = await _stored(node, expires_in=timedelta(microseconds=1))
    revoked, number = await _stored(node)
    async with node.database.engine() as connection:
        await tenants.revoke_token(connection, number)
    wrong = f"rota_{good.public_id}_{'A' * 43}"
    answers = []
    for header in (
        None, "", "Bearer", "Basic abc", f"Bearer {good.text}x", f"bearer {make_key().text}", f"Bearer {wrong}",
        f"Bearer {expired.text}", f"Bearer {revoked.text}", "Bearer \udcff", f"Bearer {good.text}\0",
    ):  # fmt: skip
        with pytest.raises(Problem) as refused:
            await Authenticator(node.database).caller(header)
        answers.append((refused.value.status, refused.value.slug, refused.value.title, refused.value.detail))
    assert set(answers) == {answers[0]}
    assert answers[0][:2] == (401, "unauthorized")


async def test_a_revoked_key_stops_working_when_it_is_forgotten(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert authenticate.REMEMBER_SECONDS <= 10, "revoked on all nodes within ten seconds"
    monkeypatch.setattr(authenticate, "REMEMBER_SECONDS", 0.0)
    key, number = await _stored(node)
    authenticator = Authenticator(node.database)
    await authenticator.caller(f"Bearer {key.text}")
    async with node.database.engine() as connection:
        await tenants.revoke_token(connection, number)
    with pytest.raises(Problem):
        await authenticator.caller(f"Bearer {key.text}")
