"""Two server nodes without workers: machines of the tests join them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.api.nodes.machines import Machine
from tests.api.served import Served
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres


@pytest.fixture(scope="module")
def two(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Cluster(postgres.create(), tmp_path_factory.mktemp("nodes"), time_scale=CALM) as running:
        running.add_server()
        running.add_server()
        served = Served.on(running)
        for pool in ("gpu", "strict"):
            made = served.send("POST", "/v1/pools", {"name": pool, "elastic": True}, token=running.tokens.admin)
            assert made.status_code == 201
        yield served


@pytest.fixture
def machine(two: Served) -> Callable[..., Machine]:
    """A new machine, of the first server node unless another is named."""

    def make(server: int = 0, **fields: object) -> Machine:
        return Machine(two, two.cluster.urls[server], **fields)  # type: ignore[arg-type]

    return make
