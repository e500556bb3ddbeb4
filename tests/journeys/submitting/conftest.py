"""One cluster for running tasks that submit others: two server nodes, a worker, and a tenant that is not trusted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from tests.conftest import MODULES
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres

from rota import Client

Rota = Callable[..., subprocess.CompletedProcess[str]]
PATIENCE_SECONDS = 30.0
T = TypeVar("T")
LIMIT = 40  # tasks that running tasks may submit into one graph here


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
    folder = tmp_path_factory.mktemp("submitting")
    with Cluster(postgres.create(), folder, time_scale=CALM, modules=MODULES) as running:
        running.add_server(ROTA_GROWTH_LIMIT=str(LIMIT), ROTA_LOG="debug")
        running.add_server(ROTA_GROWTH_LIMIT=str(LIMIT), ROTA_LOG="debug")
        running.add_worker(ROTA_LOG="debug")
        yield running


@pytest.fixture
def client(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("ROTA_SERVER", cluster.urls[0])
    monkeypatch.setenv("ROTA_TOKEN", cluster.tokens.admin)
    monkeypatch.syspath_prepend(str(MODULES))
    with Client() as ready:
        yield ready


@pytest.fixture(scope="package")
def rota(cluster: Cluster) -> Rota:
    """The command line, as a user runs it."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "ROTA_SERVER": cluster.urls[0], "ROTA_TOKEN": cluster.tokens.admin}
        return subprocess.run(
            [sys.executable, "-m", "rota.cli", *words], env=environment, capture_output=True, text=True, timeout=90
        )

    return run


@pytest.fixture(scope="package")
def stranger(cluster: Cluster, rota: Rota) -> Iterator[Client]:
    """A client of a tenant whose tasks run in the sandbox, without a network."""
    rota("tenant", "add", "stranger", "--plan", "unlimited")
    made = json.loads(rota("token", "add", "--tenant", "stranger", "--user", "sue", "-o", "json").stdout)
    with Client(server=cluster.urls[0], token=made["token"]) as ready:
        yield ready
