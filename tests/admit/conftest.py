from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.admit.node import Node, running_node
from tests.harness.postgres import TestPostgres
from tests.store.rows import shared_database


@pytest.fixture(scope="session")
def shared(postgres: TestPostgres) -> str:
    return shared_database(postgres)


@pytest.fixture
async def node(shared: str) -> AsyncIterator[Node]:
    async with running_node(shared) as running:
        yield running
