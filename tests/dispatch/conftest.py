from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.dispatch.leading import Leading
from tests.harness.postgres import TestPostgres
from tests.store.rows import Rows, shared_database


@pytest.fixture(scope="session")
def shared(postgres: TestPostgres) -> str:
    return shared_database(postgres)


@pytest.fixture
async def leading(shared: str) -> AsyncIterator[Leading]:
    rows = await Rows.open(shared)
    await rows.connection.execute(
        "delete from queue"
    )  # a leader reads the whole pool: other tests' rows are in its way
    began = await Leading.begin(rows)
    yield began
    await began.close()
    await rows.close()
