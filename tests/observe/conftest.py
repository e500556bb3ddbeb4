"""One real cluster for all who listen: two server nodes and a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from rota.client.client import Client
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres


@pytest.fixture(scope="package")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("observe")) as running:
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
        environment = {**os.environ, "ROTA_SERVER": cluster.urls[server], "ROTA_TOKEN": cluster.keys.admin}
        return subprocess.run(
            [sys.executable, "-m", "rota.cli", *arguments], env=environment, capture_output=True, text=True, timeout=60
        )

    return run
