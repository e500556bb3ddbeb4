"""One cluster for results, progress, logs and requests to running tasks, and a helper that waits for a condition."""

from __future__ import annotations

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

from rota.client._sync.client import Client

PATIENCE_SECONDS = 30.0
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
    """Two server nodes and a worker, shared by the whole folder."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("talk"), time_scale=CALM, modules=MODULES) as running:
        running.add_server()
        running.add_server()
        running.add_worker()
        yield running


@pytest.fixture(scope="package")
def client(cluster: Cluster) -> Client:
    return cluster.client()


@pytest.fixture(scope="package")
def rota(cluster: Cluster) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line, as a user runs it."""

    def run(*arguments: str, server: int = 0) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "ROTA_SERVER": cluster.urls[server], "ROTA_TOKEN": cluster.tokens.admin}
        return subprocess.run(
            [sys.executable, "-m", "rota.cli", *arguments], env=environment, capture_output=True, text=True, timeout=60
        )

    return run
