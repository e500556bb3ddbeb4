"""Every token that a database had before there were principals works as it did: same tenant, user, role and pools."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from rota.admit.authenticate import Authenticator, NewToken, make_token
from rota.attempt_key import AttemptKeys
from rota.model.accounts.permissions import SCOPES, Reach, Role, Scope
from rota.model.errors import Problem
from rota.store import migrations
from rota.store.database import Database
from tests.harness.postgres import TestPostgres

BEFORE_ACCOUNTS = 40


@pytest.fixture
def old_database(postgres: TestPostgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the schema of the version before accounts."""
    url = postgres.url("before_accounts")

    async def prepare() -> None:
        connection = await asyncpg.connect(postgres.url("postgres"))
        await connection.execute("drop database if exists before_accounts")
        await connection.execute("create database before_accounts")
        await connection.close()
        known = [one for one in migrations.known_migrations() if one.number <= BEFORE_ACCOUNTS]
        with monkeypatch.context() as patched:
            patched.setattr(migrations, "known_migrations", lambda: known)
            await migrations.upgrade(url)

    asyncio.run(prepare())
    return url


async def _stored(url: str, tenant: int, role: str, *, expires: timedelta | None = None) -> NewToken:
    token = make_token()
    connection = await asyncpg.connect(url)
    await connection.execute(
        """insert into tokens (public_id, secret_hash, tenant, user_name, role, expires_at)
            values ($1, $2, $3, 'ann', $4, now() + $5::interval)""",
        token.public_id, token.secret_hash, tenant, role, expires,
    )  # fmt: skip
    await connection.close()
    return token


async def test_tokens_of_every_role_outlive_the_migration(old_database: str) -> None:
    connection = await asyncpg.connect(old_database)
    tenant = await connection.fetchval("insert into tenants (name, plan) values ('acme', 'free') returning id")
    other = await connection.fetchval("insert into tenants (name, plan) values ('other', 'free') returning id")
    await connection.close()
    kept = {role: await _stored(old_database, tenant, role.value) for role in Role}
    later = await _stored(old_database, tenant, "member", expires=timedelta(days=1))
    over = await _stored(old_database, tenant, "member", expires=timedelta(seconds=-1))
    assert other != tenant

    assert (await migrations.upgrade(old_database)).current
    database = Database(old_database)
    authenticator = Authenticator(database, AttemptKeys("test"))
    try:
        for role, token in kept.items():
            caller = await authenticator.caller(f"Bearer {token.text}")
            assert (caller.tenant, caller.user, caller.role, caller.principal_id) == ("acme", "ann", role, None)
            assert caller.plan.name == "free"
            reach = Reach.TENANT if role in (Role.MEMBER, Role.VIEWER) else Reach.EVERYWHERE
            by_name_only = set() if role is Role.ADMIN else {Scope.TOKENS_WRITE}
            assert caller.scopes >= SCOPES[role, reach] - by_name_only
        member = await authenticator.caller(f"Bearer {later.text}")
        assert member.expires_at is not None
        assert member.expires_soon
        with pytest.raises(Problem, match="send a valid token"):
            await authenticator.caller(f"Bearer {over.text}")
        for role in (Role.MEMBER, Role.VIEWER):
            with pytest.raises(Problem, match="no such tenant"):
                await authenticator.caller(f"Bearer {kept[role].text}", tenant="other")
        admin = await authenticator.caller(f"Bearer {kept[Role.ADMIN].text}", tenant="other")
        assert (admin.tenant, admin.foreign) == ("other", True)
    finally:
        await database.close()
