from __future__ import annotations

from collections.abc import Iterator

import pytest
from stub_server import StubServer

from rota import Client


@pytest.fixture
def server() -> Iterator[StubServer]:
    stub = StubServer()
    yield stub
    stub.close()


@pytest.fixture
def client(server: StubServer) -> Iterator[Client]:
    with Client(server.url, "key") as made:
        yield made
