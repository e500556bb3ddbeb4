from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.postgres import TestPostgres
from tests.store.rows import Rows, shared_database


@pytest.fixture(scope="session")
def shared(postgres: TestPostgres) -> str:
    return shared_database(postgres)


@pytest.fixture
async def rows(shared: str) -> AsyncIterator[Rows]:
    opened = await Rows.open(shared)
    yield opened
    await opened.close()
