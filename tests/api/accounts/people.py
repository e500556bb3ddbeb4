"""Users, service accounts and their credentials, made through the API as an administrator would make them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import httpx

from rota.admit.authenticate import hash_secret
from rota.model.accounts.permissions import Binding, Role, scopes_at
from rota.store.sessions import add_session
from tests.api.served import Served

EVERYWHERE = {"everywhere": "yes"}
OWN_PAGE = {"sec-fetch-site": "same-origin"}


@dataclass(frozen=True)
class People:
    """One tenant and those who work there; `admin` is an administrator everywhere."""

    served: Served
    tenant: str
    tenant_id: int

    @staticmethod
    def at(served: Served, plan: str = "unlimited") -> People:
        return People(served, *served.add_tenant(plan))

    @property
    def admin(self) -> str:
        return self.served.cluster.tokens.admin

    def send(self, method: str, path: str, body: object = None, *, token: str | None, **more: Any) -> httpx.Response:
        return self.served.send(method, path, body, token=token, **more)

    def add_user(self, role: str | None = None, *, name: str = "", **place: str) -> str:
        """By default at the tenant. Returns the name."""
        name = name or f"u-{uuid4().hex[:10]}"
        at = {} if place == EVERYWHERE else place or {"tenant": self.tenant}
        body = {"name": name, **({} if role is None else {"role": role, **at})}
        made = self.send("POST", "/v1/users", body, token=self.admin)
        assert made.status_code == 201, made.text
        return name

    def token_of(self, owner: str, **fields: Any) -> str:
        """A token with all scopes of its owner that a token can have, unless `fields` say otherwise."""
        made = self.send("POST", "/v1/tokens", {"tenant": self.tenant, "owner": owner, **fields}, token=self.admin)
        assert made.status_code == 201, made.text
        return str(made.json()["token"])

    def user(self, role: str, **place: str) -> str:
        """A token of a new user with one role, which may do all that the user may."""
        return self.token_of(self.add_user(role, **place), scopes=held(role, place))

    def give(self, name: str, role: str, **place: str) -> None:
        given = self.send("POST", f"/v1/users/{name}/bindings", {"role": role, **place}, token=self.admin)
        assert given.status_code == 201, given.text

    def session_of(self, name: str, *, proved: bool = True) -> dict[str, str]:
        """The headers of a browser with a session of the user, on a page of the server."""
        secret = f"session-{uuid4().hex}"

        async def store() -> None:
            connection = await asyncpg.connect(self.served.cluster.database)
            try:
                principal = await connection.fetchval("select id from principals where name = $1", name)
                number = await add_session(
                    connection,
                    secret_hash=hash_secret(secret),
                    principal=principal,
                    tenant_id=self.tenant_id,
                    via="password",
                    lasts=timedelta(days=1),
                    address="127.0.0.1",
                    agent="test",
                )
                if not proved:
                    await connection.execute(
                        "update sessions set proved_at = now() - interval '16 minutes' where id = $1", number
                    )
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(store())).result()
        return {"cookie": f"rota={secret}", **OWN_PAGE}


def held(role: str, place: dict[str, str]) -> list[str]:
    """The names of all scopes of a role there."""
    pool, everywhere = place.get("pool"), place == EVERYWHERE
    return sorted(scopes_at(Binding(role=Role(role), tenant=None if pool or everywhere else 1, pool=pool)))
