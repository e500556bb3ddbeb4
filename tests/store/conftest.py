from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.harness.postgres import TestPostgres
from tests.store.rows import Rows, shared_database

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared(postgres: TestPostgres) -> str:
    return shared_database(postgres)


@pytest.fixture
async def rows(shared: str) -> AsyncIterator[Rows]:
    opened = await Rows.open(shared)
    yield opened
    await opened.close()


@pytest.fixture
def empty_database(postgres: TestPostgres) -> str:
    """A database without any schema."""
    name = f"empty_{next(_numbers)}"

    async def create() -> None:
        connection = await asyncpg.connect(postgres.url("postgres"))
        await connection.execute(f"create database {name}")
        await connection.close()

    asyncio.run(create())
    return postgres.url(name)
