"""One server node and two workers with checkpoints; the second takes only tasks that require its label."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from tests.conftest import MODULES
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

from rota.client._sync.client import Client

PATIENCE_SECONDS = 60.0
T = TypeVar("T")


def eventually(ask: Callable[[], T | None]) -> T:
    """What `ask` answers once it answers something."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = ask()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come about")


@pytest.fixture(scope="package")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("checkpoints"), modules=MODULES) as running:
        running.add_server()
        running.add_worker(options=("--checkpoint-limit", "1Mi"))
        yield running


@pytest.fixture(scope="package")
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@pytest.fixture(scope="package")
def untrusted(cluster: Cluster) -> Iterator[Client]:
    """A member of a tenant that nobody trusts: its tasks run sandboxed."""
    admin = {"authorization": f"Bearer {cluster.tokens.admin}"}
    with httpx.Client(base_url=cluster.urls[0], headers=admin, timeout=30, trust_env=False) as http:
        http.post("/v1/tenants", json={"name": "untrusted", "plan": "unlimited"}).raise_for_status()
        answer = http.post("/v1/tokens", json={"tenant": "untrusted", "user": "sam", "role": "member"})
    with Client(server=cluster.urls[0], token=answer.raise_for_status().json()["token"]) as client:
        yield client


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], list[str]]:
    """A shell command that finds a folder outside of its own, to meet the test in, as $MEET."""

    def command(text: str) -> list[str]:
        return ["bash", "-c", f"MEET={tmp_path}\n{text}"]

    return command
