from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.harness.postgres import TestPostgres
from tests.store.rows import shared_database


@pytest.fixture(scope="session")
def shared(postgres: TestPostgres) -> str:
    return shared_database(postgres)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop for machines, whose rules are plain functions."""
    made = asyncio.new_event_loop()
    yield made
    made.close()
