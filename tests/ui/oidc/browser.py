"""A browser, and a server node that signs people in through a provider."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from tests.harness.cluster import Cluster

SETTINGS = """
[oidc]
issuer = "{issuer}"
client_id = "rota"
client_secret_file = "client.secret"
name = "Example Corp"
{more}
"""
MAP = 'map = {"rota-admins" = "admin@*", "ml" = "member@default", "gpu-ops" = "operator@pool:default", "far" = "member@nowhere"}'


class Browser:
    """With cookies, and without anything else: every redirect is one to look at."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, address: str) -> httpx.Response:
        return self.http.get(address)

    def start(self, next: str = "/ui/") -> str:
        """The address at the provider to which the browser is sent."""
        answered = self.get(f"/ui/oidc/start?next={next}")
        assert answered.status_code == 303, answered.text
        return answered.headers["location"]

    def sign_in(self, provider: Any, subject: str) -> httpx.Response:
        return self.get(provider.agree(self.start(), subject))

    def put_cookie(self, name: str, value: str) -> None:
        """As if the server had set it."""
        self.http.cookies.set(name, value, domain="127.0.0.1", path="/")

    def whoami(self) -> dict[str, Any]:
        answered = self.get("/v1/whoami")
        assert answered.status_code == 200, answered.text
        return dict(answered.json())

    @property
    def signed_in(self) -> bool:
        return self.get("/v1/whoami").status_code == 200


@dataclass
class Site:
    """Server nodes with one provider."""

    cluster: Cluster
    issuer: str

    @staticmethod
    def write(folder: Path, issuer: str, more: str = MAP) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "client.secret").write_text("the-secret-of-rota\n")
        (folder / "client.secret").chmod(0o600)
        (folder / "rota.toml").write_text(SETTINGS.format(issuer=issuer, more=more))

    @property
    def url(self) -> str:
        return self.cluster.urls[0]

    def browser(self, server: int = 0) -> Browser:
        return Browser(self.cluster.urls[server])

    def send(self, method: str, path: str, body: object = None) -> httpx.Response:
        """As an administrator everywhere."""
        headers = {"authorization": f"Bearer {self.cluster.tokens.admin}"}
        return httpx.request(method, self.url + path, json=body, headers=headers, trust_env=False)

    def add_user(self, name: str, **fields: Any) -> str:
        made = self.send("POST", "/v1/users", {"name": name, **fields})
        assert made.status_code == 201, made.text
        return name

    def roles(self, name: str) -> set[tuple[str, str | None, str]]:
        """Role, place and source of each."""
        found = self.send("GET", f"/v1/users/{name}").json()
        return {(role["role"], role["tenant"] or role["pool"], role["source"]) for role in found["roles"]}

    def ask(self, question: str, *arguments: object) -> list[tuple[Any, ...]]:
        async def fetch() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(self.cluster.database)
            try:
                return [tuple(row) for row in await connection.fetch(question, *arguments)]
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(fetch())).result()

    def audited(self, action: str, *, after: int = 0) -> list[tuple[Any, ...]]:
        """Object, outcome and reason of the entries with this action, oldest first."""
        return self.ask(
            "select object_id, outcome, reason from audit_log where action = $1 and id > $2 order by id", action, after
        )

    def last_entry(self) -> int:
        return int(self.ask("select coalesce(max(id), 0) from audit_log")[0][0])
