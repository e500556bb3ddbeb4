"""Tokens: long, stored only as a hash; every token that is not valid gets the same answer."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest

from rota.admit import authenticate
from rota.admit.authenticate import Authenticator, NewToken, hash_secret, make_token
from rota.attempt_key import AttemptKeys
from rota.model.accounts.permissions import Role
from rota.model.errors import Problem
from rota.store import tenants
from tests.admit.node import Node


async def _stored(node: Node, *, expires_in: timedelta | None = None) -> tuple[NewToken, int]:
    caller = await node.caller()
    token = make_token()
    async with node.database.engine() as connection:
        number = await tenants.add_token(
            connection, public_id=token.public_id, secret_hash=token.secret_hash, tenant_id=caller.tenant_id, user="ann",
            role=Role.VIEWER, expires=expires_in,
        )  # fmt: skip
    return token, number


def test_a_token_has_at_least_192_random_bits_and_no_two_are_alike() -> None:
    tokens = [make_token() for _ in range(50)]
    secrets = [token.text.split("_", 2)[2] for token in tokens]
    assert len({*secrets}) == len({token.public_id for token in tokens}) == 50
    assert all(len(base64.urlsafe_b64decode(secret + "=")) * 8 >= 192 for secret in secrets)


async def test_a_valid_token_names_its_caller(node: Node) -> None:
    token, number = await _stored(node)
    caller = await Authenticator(node.database, AttemptKeys("test")).caller(f"Bearer {token.text}")
    assert (caller.token_id, caller.user, caller.role, caller.plan.name) == (number, "ann", Role.VIEWER, "unlimited")


async def test_the_database_never_holds_a_token(node: Node) -> None:
    token, _ = await _stored(node)
    secret = token.text.split("_", 2)[2]
    async with node.database.engine() as connection:
        rows = await connection.fetch("select tokens::text from tokens")
        stored = await connection.fetchval("select secret_hash from tokens where public_id = $1", token.public_id)
    assert not any(secret in row[0] for row in rows)
    assert stored == hash_secret(secret)


async def test_missing_malformed_unknown_wrong_expired_and_revoked_tokens_get_one_answer(node: Node) -> None:
    good, _ = await _stored(node)
    expired, _ = await _stored(node, expires_in=timedelta(microseconds=1))
    revoked, number = await _stored(node)
    async with node.database.engine() as connection:
        await tenants.revoke_token(connection, number)
    wrong = f"rota_{good.public_id}_{'A' * 43}"
    answers = []
    for header in (
        None, "", "Bearer", "Basic abc", f"Bearer {good.text}x", f"bearer {make_token().text}", f"Bearer {wrong}",
        f"Bearer {expired.text}", f"Bearer {revoked.text}", "Bearer \udcff", f"Bearer {good.text}\0",
    ):  # fmt: skip
        with pytest.raises(Problem) as refused:
            await Authenticator(node.database, AttemptKeys("test")).caller(header)
        answers.append((refused.value.status, refused.value.slug, refused.value.title, refused.value.detail))
    assert set(answers) == {answers[0]}
    assert answers[0][:2] == (401, "unauthorized")


async def test_a_revoked_token_stops_working_when_it_is_forgotten(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert authenticate.REMEMBER_SECONDS < 2, "revoked on all nodes within two seconds"
    monkeypatch.setattr(authenticate, "REMEMBER_SECONDS", 0.0)
    token, number = await _stored(node)
    authenticator = Authenticator(node.database, AttemptKeys("test"))
    await authenticator.caller(f"Bearer {token.text}")
    async with node.database.engine() as connection:
        await tenants.revoke_token(connection, number)
    with pytest.raises(Problem):
        await authenticator.caller(f"Bearer {token.text}")
