"""A server node to send good and bad requests to: tenants, a token of every role, and a look at what was stored."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import asyncpg
import httpx

from rota.model.accounts.permissions import Role
from tests.harness.cluster import Cluster

PREFIX = "https://rota.dev/problems/"
INTERNALS = re.compile(r"Traceback|asyncpg|postgres|site-packages|\bselect\b|\.py\b", re.IGNORECASE)


@dataclass
class Served:
    cluster: Cluster
    tokens: dict[str, str] = field(default_factory=dict)  # by role, all of one tenant
    tenant: int = 0
    stranger: str = ""  # a member of another tenant

    @property
    def url(self) -> str:
        return self.cluster.urls[0]

    @staticmethod
    def on(cluster: Cluster) -> Served:
        served = Served(cluster)
        name, served.tenant = served.add_tenant()
        served.tokens = {role.value: served.add_token(name, role) for role in Role}
        served.stranger = served.add_token(served.add_tenant()[0])
        return served

    def add_tenant(self, plan: str = "unlimited") -> tuple[str, int]:
        name = f"t-{uuid4().hex[:10]}"
        made = self.send(
            "POST", "/v1/tenants", {"name": name, "plan": plan, "trusted": True}, token=self.cluster.tokens.admin
        )
        return name, made.json()["id"]

    def add_token(self, tenant: str, role: Role = Role.MEMBER) -> str:
        body = {"tenant": tenant, "user": f"{role.value}-user", "role": role.value}
        return str(self.send("POST", "/v1/tokens", body, token=self.cluster.tokens.admin).json()["token"])

    def send(
        self, method: str, path: str, body: object = None, *, token: str | None = "", **more: Any
    ) -> httpx.Response:
        """One request on a connection of its own. `token` "" is a member's, None none."""
        headers = dict(more.pop("headers", {}))
        chosen = self.tokens.get("member", "") if token == "" else token
        if chosen:
            headers.setdefault("authorization", f"Bearer {chosen}")
        content = body if isinstance(body, bytes | Iterator) else None if body is None else json.dumps(body).encode()
        if content is not None:
            headers.setdefault("content-type", "application/json")
        with httpx.Client(base_url=self.url, timeout=30, verify=False, trust_env=False) as http:  # plain HTTP: quicker
            return http.request(method, path, content=content, headers=headers, **more)

    def submit(self, token: str = "", **task: Any) -> int:
        """A task nobody will run: there is no worker."""
        return int(self.send("POST", "/v1/tasks", {"command": ["true"], **task}, token=token).json()["id"])

    # ---- the database, from behind --------------------------------------------------------------------------------

    def ask(self, question: str, *arguments: object) -> list[tuple[Any, ...]]:
        async def fetch() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(self.cluster.database)
            try:
                return [tuple(row) for row in await connection.fetch(question, *arguments)]
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:  # the test may have a loop of its own
            return thread.submit(lambda: asyncio.run(fetch())).result()

    def stored(self) -> list[tuple[Any, ...]]:
        """How much there is of everything a submission or an edit could write for the tenant."""
        return self.ask(
            """select (select count(*) from tasks where tenant = $1), (select count(*) from queue where tenant = $1),
                (select count(*) from attempts where tenant = $1), (select count(*) from edges),
                (select count(*) from idempotency where tenant = $1),
                (select count(*) from dead_letters where tenant = $1),
                (select coalesce(sum(version), 0) from queue where tenant = $1),
                (select count(*) from rate_limits where tenant = $1)""",
            self.tenant,
        )


@dataclass(frozen=True)
class Said:
    """A problem document in the parts that are promised."""

    status: int
    slug: str
    faults: tuple[tuple[str, str], ...] = ()


def problem(response: httpx.Response) -> Said:
    """The problem, after checking that it is a well-formed RFC 9457 document that gives nothing away."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    document = response.json()
    assert document["type"].startswith(PREFIX)
    assert document["status"] == response.status_code
    assert all(isinstance(document[name], str) and document[name] for name in ("title", "detail"))
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["instance"])
    assert len(document["detail"]) < 600
    assert not INTERNALS.search(response.text), response.text
    assert ("retry-after" in response.headers) == ("retry_after" in document)
    faults = document.get("errors", [])
    assert all(set(fault) == {"pointer", "code", "detail"} and fault["detail"] for fault in faults)
    return Said(
        response.status_code,
        document["type"].removeprefix(PREFIX),
        tuple((fault["pointer"], fault["code"]) for fault in faults),
    )


def without_instance(response: httpx.Response) -> tuple[int, dict[str, Any]]:
    return response.status_code, {name: value for name, value in response.json().items() if name != "instance"}
