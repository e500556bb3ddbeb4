"""What admission knows of the world is never too old to refuse somebody by."""

from __future__ import annotations

import asyncio

import pytest

from rota.model.resources import Resources
from rota.store.nodes import register_node
from tests.admit.node import Node, running_node, task
from tests.harness.postgres import TestPostgres

GIB = 2**30


@pytest.fixture
def own_database(postgres: TestPostgres) -> str:
    return postgres.create()


async def _join(node: Node, name: str, *, gpus: int) -> None:
    capacity = Resources(cpu_milli=1_000, memory_bytes=GIB, disk_bytes=GIB, gpus=gpus)
    async with node.database.engine() as connection:
        await register_node(
            connection, pool=1, name=name, boot=1, capacity=capacity, labels={}, capabilities=[], version="0",
        )  # fmt: skip


async def test_a_node_that_joined_a_moment_ago_is_no_reason_to_refuse(own_database: str) -> None:
    async with running_node(own_database) as node:
        caller = await node.caller()
        await _join(node, "plain", gpus=0)
        await node.world.refresh()
        await _join(node, "rich", gpus=4)
        # However lately the world was read: each request is judged by what was so after it came.
        landed = await asyncio.gather(*(node.submit(caller, task(gpus=gpus)) for gpus in (1, 2, 3, 4)))
        assert [len(one.rows) for one in landed] == [1, 1, 1, 1]
