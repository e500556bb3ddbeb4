from __future__ import annotations

from collections.abc import Iterator

import pytest

from rota import Client
from tests.client.stub_server import StubServer


@pytest.fixture
def server() -> Iterator[StubServer]:
    stub = StubServer()
    yield stub
    stub.close()


@pytest.fixture
def client(server: StubServer) -> Iterator[Client]:
    with Client(server.url, "key") as made:
        yield made
