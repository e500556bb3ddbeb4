"""A session's cookie stands for its user on every route, is refused from other sites, and ends within five seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import asyncpg
import pytest

from rota.admit.authenticate import hash_secret
from rota.model.accounts.permissions import Binding, Role
from rota.store.principals import add_binding, add_principal
from rota.store.sessions import add_session, end_sessions
from tests.api.served import Said, Served, problem
from tests.faults.scene import eventually

OWN_PAGE = {"sec-fetch-site": "same-origin"}


class SignedIn:
    """A user with one role at the tenant of `served`, and a session."""

    def __init__(self, served: Served, name: str, role: Role) -> None:
        self.served = served
        self.secret = f"secret of {name}"
        self.principal = 0
        self._run(self._prepare, name, role)

    def end(self) -> None:
        self._run(lambda connection: end_sessions(connection, self.principal))

    def cookie(self, **headers: str) -> dict[str, str]:
        return {"cookie": f"rota={self.secret.replace(' ', '-')}", **headers}

    async def _prepare(self, connection: asyncpg.Connection, name: str, role: Role) -> None:
        made = await add_principal(connection, kind="user", name=name, tenant_id=None, email=None, by="test")
        assert made is not None
        self.principal = made.id
        await add_binding(connection, made.id, Binding(role=role, tenant=self.served.tenant), by="test")
        await add_session(
            connection,
            secret_hash=hash_secret(self.secret.replace(" ", "-")),
            principal=made.id,
            tenant_id=self.served.tenant,
            via="password",
            lasts=timedelta(days=7),
            address="127.0.0.1",
            agent="test",
        )

    def _run(self, do: Callable[..., Awaitable[object]], *arguments: object) -> None:
        async def run() -> None:
            connection = await asyncpg.connect(self.served.cluster.database)
            try:
                await do(connection, *arguments)
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(run())).result()


@pytest.fixture(scope="module")
def ann(served: Served) -> SignedIn:
    return SignedIn(served, "ann", Role.MEMBER)


def test_a_session_reads_and_changes_its_tenant(served: Served, ann: SignedIn) -> None:
    task = served.submit()
    found = served.send("GET", f"/v1/tasks/{task}", token=None, headers=ann.cookie())
    assert found.status_code == 200
    cancelled = served.send("POST", f"/v1/tasks/{task}/cancel", token=None, headers=ann.cookie(**OWN_PAGE))
    assert cancelled.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": "OWN"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {},
    ],
)
def test_a_change_from_another_site_is_refused(served: Served, ann: SignedIn, headers: dict[str, str]) -> None:
    task = served.submit()
    sent = {name: value.replace("OWN", served.url) for name, value in headers.items()}
    refused = served.send("POST", f"/v1/tasks/{task}/cancel", token=None, headers=ann.cookie(**sent))
    assert problem(refused) == Said(403, "cross-site")
    assert served.send("GET", f"/v1/tasks/{task}").json()["state"] != "cancelled"


def test_an_old_browser_says_its_origin(served: Served, ann: SignedIn) -> None:
    task = served.submit()
    headers = ann.cookie(origin=served.url)
    assert served.send("POST", f"/v1/tasks/{task}/cancel", token=None, headers=headers).status_code == 200


def test_a_token_wins_over_a_cookie(served: Served, ann: SignedIn) -> None:
    headers = ann.cookie(authorization="Bearer rota_wrong")
    assert problem(served.send("GET", "/v1/tasks", token=None, headers=headers)) == Said(401, "unauthorized")


def test_a_session_that_ended_opens_nothing_within_five_seconds(served: Served) -> None:
    bob = SignedIn(served, "bob", Role.VIEWER)

    def status() -> int:
        return served.send("GET", "/v1/tasks", token=None, headers=bob.cookie()).status_code

    assert status() == 200
    bob.end()
    eventually(lambda: status() == 401, seconds=5, what="the session is over")


def test_a_viewer_changes_nothing(served: Served) -> None:
    eve = SignedIn(served, "eve", Role.VIEWER)
    task = served.submit()
    refused = served.send("POST", f"/v1/tasks/{task}/cancel", token=None, headers=eve.cookie(**OWN_PAGE))
    assert problem(refused) == Said(403, "missing-scope")
    assert refused.json()["needed"] == "tasks:control"
