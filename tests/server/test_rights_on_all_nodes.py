"""What an administrator takes away through one server node is gone on every node within five seconds, open streams too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.scene import eventually
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

PROMISED_SECONDS = 5.0


@pytest.fixture
def two_nodes(postgres: TestPostgres, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(postgres.create(), tmp_path) as cluster:
        cluster.add_server()
        cluster.add_server()
        yield cluster


def _ask(cluster: Cluster, node: int, method: str, path: str, token: str, body: Any = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=cluster.urls[node], headers=headers, timeout=30, trust_env=False) as http:
        return http.request(method, path, json=body)


def test_a_demoted_owner_and_its_token_lose_a_right_everywhere(two_nodes: Cluster) -> None:
    admin = two_nodes.tokens.admin
    _ask(two_nodes, 0, "POST", "/v1/users", admin, {"name": "ann", "role": "member", "tenant": "default"})
    _ask(two_nodes, 0, "POST", "/v1/users/ann/bindings", admin, {"role": "viewer", "tenant": "default"})
    made = _ask(two_nodes, 0, "POST", "/v1/tokens", admin, {"owner": "ann"}).json()["token"]

    def submit(node: int) -> httpx.Response:
        return _ask(two_nodes, node, "POST", "/v1/tasks", made, {"command": ["true"]})

    assert [submit(node).status_code for node in (0, 1)] == [201, 201]
    url = f"{two_nodes.urls[1]}/v1/events"
    with httpx.Client(headers={"authorization": f"Bearer {made}"}, timeout=30, trust_env=False) as http:
        with http.stream("GET", url, params={"follow": "true"}) as events:
            assert events.status_code == 200
            _ask(two_nodes, 0, "DELETE", "/v1/users/ann/bindings?role=member&tenant=default", admin)
            taken = time.monotonic()
            for node in (0, 1):
                eventually(lambda node=node: submit(node).status_code == 403, seconds=PROMISED_SECONDS, what="demoted")
                assert submit(node).json()["needed"] == "tasks:submit"
                assert _ask(two_nodes, node, "GET", "/v1/tasks", made).status_code == 200, "it is a viewer still"
            for _ in events.iter_bytes():
                pass  # until the server ends it
            assert time.monotonic() - taken < PROMISED_SECONDS
