"""For the tutorial: a client and the `rota` command, both pointed at a running cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from rota import Client
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

MODULES = Path(__file__).parent.parent / "modules"


@pytest.fixture(scope="session")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server node and one worker for all lessons: they touch only what they made."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("tutorial"), time_scale=CALM, modules=MODULES) as running:
        running.add_server()
        running.add_worker()
        yield running


@pytest.fixture
def client(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """`Client()` would read the profile that `rota up` writes; here the environment names the server."""
    monkeypatch.setenv("ROTA_SERVER", cluster.urls[0])
    monkeypatch.setenv("ROTA_TOKEN", cluster.tokens.admin)
    monkeypatch.syspath_prepend(str(MODULES))
    with Client() as ready:
        yield ready


@pytest.fixture
def rota(cluster: Cluster) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command as a person would: `rota("list", "-o", "json")`."""
    environment = {**os.environ, "ROTA_SERVER": cluster.urls[0], "ROTA_TOKEN": cluster.tokens.admin}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rota.cli", *words], env=environment, capture_output=True, text=True, timeout=60
        )

    return run


@pytest.fixture
def neighbour(cluster: Cluster, rota: Callable[..., subprocess.CompletedProcess[str]]) -> Iterator[Client]:
    """A client of another tenant, on the smallest plan."""
    name = f"neighbour-{uuid4().hex[:8]}"
    rota("tenant", "add", name, "--plan", "free")
    made = json.loads(rota("token", "add", "--tenant", name, "--user", "nina", "-o", "json").stdout)
    with Client(server=cluster.urls[0], token=made["token"]) as ready:
        yield ready
