"""What an operator changes through one server node holds on every other one within two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

SECONDS = 2.0


@dataclass
class Two:
    """Two server nodes of one cluster: one is changed, the other one asked."""

    cluster: Cluster

    def change(self, method: str, path: str, body: object = None) -> Any:
        answered = self._ask(0, method, path, body, self.cluster.tokens.admin)
        assert answered.is_success, answered.text
        return answered.json() if answered.content else None

    def other(self, method: str, path: str, body: object = None, *, token: str = "") -> httpx.Response:
        return self._ask(1, method, path, body, token or self.cluster.tokens.admin)

    def _ask(self, server: int, method: str, path: str, body: object, token: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"}
        url = f"{self.cluster.urls[server]}{path}"
        return httpx.request(method, url, json=body, headers=headers, trust_env=False, timeout=30)

    def tenant(self, name: str, plan: str = "standard", *, trusted: bool = True) -> str:
        """A new tenant; the token of its user."""
        self.change("POST", "/v1/tenants", {"name": name, "plan": plan, "trusted": trusted})
        return str(self.change("POST", "/v1/tokens", {"tenant": name, "user": "u", "role": "member"})["token"])


@pytest.fixture(scope="module")
def two(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("rules"), time_scale=CALM) as cluster:
        for _ in range(2):
            cluster.add_server()
        cluster.add_worker()
        yield Two(cluster)


def holds_soon(look: Callable[[], bool]) -> None:
    """Called right after the answer to the change."""
    until = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < until
        time.sleep(0.02)


def task(**more: Any) -> dict[str, Any]:
    return {"command": ["true"], **more}


def checked(two: Two, token: str, **more: Any) -> int:
    """Whether the other node takes the task: 201 if so."""
    return two.other("POST", "/v1/tasks", task(delay="1h", **more), token=token).status_code


def test_a_changed_plan_and_the_plan_of_a_tenant(two: Two) -> None:
    token = two.tenant("planned")
    assert checked(two, token, cap="2h") == 201
    two.change("PATCH", "/v1/plans/standard", {"longest_cap": "1h"})
    holds_soon(lambda: checked(two, token, cap="2h") != 201)
    two.change("PATCH", "/v1/tenants/planned", {"plan": "business"})
    holds_soon(lambda: checked(two, token, cap="2h") == 201)
    assert two.other("GET", "/v1/me", token=token).json()["plan"]["name"] == "business"


def test_trust_in_a_tenant(two: Two) -> None:
    token = two.tenant("trusty", trusted=False)
    assert checked(two, token, isolation="none") != 201
    two.change("PATCH", "/v1/tenants/trusty", {"trusted": True})
    holds_soon(lambda: checked(two, token, isolation="none") == 201)


def test_a_revoked_token(two: Two) -> None:
    token = two.tenant("revoked")
    assert two.other("GET", "/v1/me", token=token).status_code == 200
    (number,) = [one["id"] for one in two.change("GET", "/v1/tokens")["tokens"] if one["tenant"] == "revoked"]
    two.change("DELETE", f"/v1/tokens/{number}")
    holds_soon(lambda: two.other("GET", "/v1/me", token=token).status_code == 401)


def test_a_revoked_token_ends_a_stream_of_events_that_is_open_on_another_node(two: Two) -> None:
    token = two.tenant("streaming")
    (number,) = [one["id"] for one in two.change("GET", "/v1/tokens")["tokens"] if one["tenant"] == "streaming"]
    headers = {"authorization": f"Bearer {token}", "accept": "text/event-stream"}
    url = f"{two.cluster.urls[1]}/v1/events"
    with httpx.stream("GET", url, headers=headers, trust_env=False, timeout=60) as stream:
        assert stream.status_code == 200
        two.change("DELETE", f"/v1/tokens/{number}")
        began = time.monotonic()
        for _ in stream.iter_bytes():
            pass
        assert time.monotonic() - began < SECONDS


def test_a_revoked_token_ends_the_connection_of_a_worker_that_has_it(two: Two) -> None:
    def connected() -> float:
        pages = [httpx.get(f"{url}/metrics", trust_env=False).text.splitlines() for url in two.cluster.urls]
        found = [line for page in pages for line in page if line.startswith('rota_pool_nodes{pool="default"}')]
        return sum(float(line.split()[-1]) for line in found)

    two.change("POST", "/v1/tenants", {"name": "machines", "plan": "standard"})
    made = two.change("POST", "/v1/tokens", {"tenant": "machines", "user": "w", "role": "worker"})
    worker = two.cluster.add_worker(ROTA_TOKEN=made["token"])
    assert connected() == 2
    two.change("DELETE", f"/v1/tokens/{made['id']}")
    holds_soon(lambda: connected() == 1)
    worker.stop()


def test_tiers_categories_and_lanes(two: Two) -> None:
    token = two.tenant("shopper", "unlimited")
    two.change("PUT", "/v1/tiers/tiny", {"cpu": 0.1, "memory": "32M"})
    two.change("PATCH", "/v1/plans/unlimited", {"tiers": ["tiny", "basic"]})
    holds_soon(lambda: checked(two, token, tier="tiny") == 201)
    two.change("PUT", "/v1/categories/report", {"tolerance": "2h"})
    holds_soon(lambda: checked(two, token, category="report") == 201)
    two.change("DELETE", "/v1/categories/report")
    holds_soon(lambda: checked(two, token, category="report") != 201)
    two.change("POST", "/v1/lanes", {"name": "later", "level": 2})
    holds_soon(lambda: checked(two, token, lane="later") == 201)


def test_pools_and_what_starts_in_them(two: Two) -> None:
    token = two.tenant("swimmer", "unlimited")
    two.change("POST", "/v1/pools", {"name": "second", "elastic": True})
    holds_soon(lambda: checked(two, token, pool="second") == 201)
    for what in ("pools/default", "tenants/swimmer"):
        two.change("POST", f"/v1/{what}/pause")
        waiting = two.other("POST", "/v1/tasks", task(), token=token).json()["id"]
        assert two.other("GET", f"/v1/tasks/{waiting}?wait=1", token=token).json()["state"] == "ready"
        two.change("POST", f"/v1/{what}/resume")
        holds_soon(lambda number=waiting: _begun(two, token, number))  # type: ignore[misc]


def _begun(two: Two, token: str, number: int) -> bool:
    return bool(two.other("GET", f"/v1/tasks/{number}", token=token).json()["state"] in ("running", "done"))


def test_retention(two: Two) -> None:
    two.change("PATCH", "/v1/retention", {"tasks_days": 90})
    assert two.other("GET", "/v1/retention").json()["tasks_days"] == 90
