from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.postgres import TestPostgres
from tests.timetable.clockwork import Clockwork, running_clockwork


@pytest.fixture(scope="session")
def own_database(postgres: TestPostgres) -> str:
    """A ticker serves all schedules of a database, so these tests have one of their own."""
    return postgres.create()


@pytest.fixture
async def clockwork(own_database: str) -> AsyncIterator[Clockwork]:
    async with running_clockwork(own_database) as running:
        yield running
