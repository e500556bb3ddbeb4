"""For the API's own tests: plain HTTP against a running node, as strangers would speak it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from tests.api.served import Served
from tests.harness.cluster import CALM, Cluster
from tests.harness.postgres import TestPostgres


@pytest.fixture(scope="session")
def served(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server node without workers, for all tests of a process. The pool `small` has one node of 4 cores."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("api"), time_scale=CALM) as running:
        asyncio.run(_add_small_pool(running.database))
        running.add_server()
        yield Served.on(running)


async def _add_small_pool(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        """update pools set elastic = true; -- whatever fits nowhere now may fit on a node to come
            insert into pools (name) values ('small');
            -- No leader hears of it again: it must not be lost before the last test.
            insert into nodes (pool, name, boot, capacity, labels, capabilities, version, seen_at)
            select id, 'n', 1, '{"cpu_milli": 4000, "memory_bytes": 8000000000, "disk_bytes": 100000000000}',
                '{"zone": "a"}', '{}', 'test', now() + interval '1 day' from pools where name = 'small'"""
    )
    await connection.close()
