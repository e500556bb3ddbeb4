"""Principals for tests, made in the database: users with the roles they are given, each with a session and a token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg

from rota.admit.authenticate import hash_secret, make_token
from rota.model.accounts.permissions import Binding
from rota.store.principals import add_binding, add_principal, remove_binding
from rota.store.sessions import add_session
from tests.api.served import Served

OWN_PAGE = {"sec-fetch-site": "same-origin"}


@dataclass
class Person:
    """A user with some roles, whose token and session belong to one tenant."""

    served: Served
    name: str
    tenant: int
    principal: int = 0
    token: str = ""
    secret: str = ""

    @staticmethod
    def with_roles(served: Served, *bindings: Binding, tenant: int, scopes: list[str] | None = None) -> Person:
        person = Person(served, f"user-{uuid4().hex[:8]}", tenant)
        person.do(person._prepare, bindings, scopes)
        return person

    @property
    def cookie(self) -> dict[str, str]:
        """The headers of a request from a page of ours."""
        return {"cookie": f"rota={self.secret}", **OWN_PAGE}

    def take(self, binding: Binding) -> None:
        """Takes the role away, as an administrator on another server node would."""
        self.do(remove_binding, self.principal, binding)

    def restrict(self, **columns: object) -> None:
        """Restricts its token, before it is used. The names of columns are ours."""
        for column, value in columns.items():
            self.served.ask(f"update tokens set {column} = $1 where owner = $2", value, self.principal)

    def do(self, act: Callable[..., Awaitable[object]], *arguments: object) -> None:
        async def run() -> None:
            connection = await asyncpg.connect(self.served.cluster.database)
            try:
                await act(connection, *arguments)
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:  # the test may have a loop of its own
            thread.submit(lambda: asyncio.run(run())).result()

    async def _prepare(self, connection: Any, bindings: tuple[Binding, ...], scopes: list[str] | None) -> None:
        made = await add_principal(connection, kind="user", name=self.name, tenant_id=None, email=None, by="test")
        assert made is not None
        self.principal = made.id
        for binding in bindings:
            await add_binding(connection, made.id, binding, by="test")
        token = make_token()
        await connection.execute(
            """insert into tokens (public_id, secret_hash, tenant, user_name, role, owner, scopes)
                values ($1, $2, $3, $4, 'member', $5, $6)""",
            token.public_id, token.secret_hash, self.tenant, self.name, made.id, scopes,
        )  # fmt: skip
        self.token, self.secret = token.text, uuid4().hex
        await add_session(
            connection,
            secret_hash=hash_secret(self.secret),
            principal=made.id,
            tenant_id=self.tenant,
            via="password",
            lasts=timedelta(days=7),
            address="127.0.0.1",
            agent="test",
        )
