"""One real cluster for all who listen: two server nodes and a worker; and a receiver of webhooks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from rota.client._sync.client import Client
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres
from tests.observe.receiver import Receiver
from tests.store.rows import Rows


@pytest.fixture(scope="package")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("observe"), time_scale=CALM) as running:
        running.add_server(ROTA_WEBHOOKS_PRIVATE="1")
        running.add_server(ROTA_WEBHOOKS_PRIVATE="1", ROTA_METRICS_PRIVATE="1")
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


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as listening:
        yield listening


@pytest.fixture(scope="session")
def outbox_database(postgres: TestPostgres) -> str:
    """A notifier serves all webhooks of a database, so these tests have one of their own."""
    return postgres.create()


@pytest.fixture
async def rows(outbox_database: str) -> AsyncIterator[Rows]:
    opened = await Rows.open(outbox_database)
    yield opened
    await opened.close()
