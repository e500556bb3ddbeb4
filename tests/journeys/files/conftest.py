"""A cluster with one worker that sandboxes untrusted tasks, and helpers to upload files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres
from tests.journeys.files.stalling import Relay, stalling

from rota.client._sync.client import Client
from rota.model.answers.tasks import TaskDocument

PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="package")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("files"), time_scale=CALM) as running:
        running.add_server()
        running.add_worker()
        yield running


@pytest.fixture
def relay(cluster: Cluster) -> Iterator[Relay]:
    """The way to the server of a second worker, `stalls=yes`: whatever it fetches or stores gets no answer."""
    with stalling(cluster.urls[0], b"/v1/worker/attempts/") as relay:
        worker = cluster.add_worker(servers=[relay.url], options=("--label", "stalls=yes"))
        yield relay
        worker.stop()


@pytest.fixture(scope="package")
def untrusted(cluster: Cluster) -> Iterator[Client]:
    """A member of a tenant that nobody trusts: its tasks run sandboxed."""
    admin = {"authorization": f"Bearer {cluster.tokens.admin}"}
    with httpx.Client(base_url=cluster.urls[0], headers=admin, timeout=30, trust_env=False) as http:
        http.post("/v1/tenants", json={"name": "untrusted", "plan": "unlimited"}).raise_for_status()
        answer = http.post("/v1/tokens", json={"tenant": "untrusted", "user": "sam", "role": "member"})
    with Client(server=cluster.urls[0], token=answer.raise_for_status().json()["token"]) as client:
        yield client


@pytest.fixture(scope="package")
def trusted(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@pytest.fixture
def ended() -> Callable[..., TaskDocument]:
    """Submits and waits for the end, however it is."""

    def submit(client: Client, command: list[str] | None = None, **work: object) -> TaskDocument:
        work.setdefault("memory", "256M")
        return client.submit(command, **work).wait(PATIENCE_SECONDS)  # type: ignore[arg-type]

    return submit
