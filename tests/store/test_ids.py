"""Task ids: unique over any number of nodes, roughly increasing, and always with a partition to go to."""

from __future__ import annotations

import asyncio
import random

import asyncpg

from rota.admit.ids import LARGEST, IdBlocks
from rota.store.database import Database
from rota.store.task_rows import PARTITION_SIZE
from tests.store.rows import Rows


async def test_nodes_that_take_ids_at_once_never_get_the_same(rows: Rows) -> None:
    nodes = [IdBlocks(Database(rows.database.url)) for _ in range(5)]
    amounts = [random.Random(7).randrange(1, 60) for _ in range(200)]
    taken = await asyncio.gather(*(nodes[place % 5].take(amount) for place, amount in enumerate(amounts)))
    assert [len(ids) for ids in taken] == amounts
    everything = [number for ids in taken for number in ids]
    assert len(set(everything)) == len(everything)
    for node in nodes:
        await node.close()


async def test_a_laptop_counts_one_two_three(database: str) -> None:
    node = IdBlocks(Database(database))
    assert [await node.take(1) for _ in range(3)] == [[1], [2], [3]]
    assert await node.take(4) == [4, 5, 6, 7]
    await node.close()


async def test_one_node_hands_its_ids_out_in_order_over_the_ends_of_blocks(rows: Rows) -> None:
    node = IdBlocks(rows.database)
    ids = [number for _ in range(60) for number in await node.take(7)]
    assert ids == sorted(set(ids))
    await node.close()


async def test_a_batch_larger_than_any_block_gets_its_ids_too(rows: Rows) -> None:
    node = IdBlocks(rows.database)
    ids = await node.take(LARGEST + 5)
    assert len(set(ids)) == LARGEST + 5
    await node.close()


async def test_ids_that_were_taken_before_a_crash_are_never_given_again(rows: Rows) -> None:
    crashed = IdBlocks(rows.database)
    before = await crashed.take(3)
    await crashed.close()
    after = await IdBlocks(rows.database).take(3)
    assert not set(before) & set(after)


async def test_partitions_are_made_two_ahead_of_the_ids(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("select setval('task_ids', $1)", 7 * PARTITION_SIZE - 3)
    node = IdBlocks(Database(database))
    ids = await node.take(8)
    assert ids[0] < 7 * PARTITION_SIZE <= ids[-1]
    for table in ("tasks", "attempts", "log_chunks"):
        for number in (6, 7, 8, 9):
            assert await connection.fetchval("select to_regclass($1)", f"{table}_{number}") is not None
    await connection.close()
    await node.close()


async def test_nodes_that_make_the_same_partition_at_once_do_not_disturb_each_other(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("select setval('task_ids', $1)", 20 * PARTITION_SIZE)
    nodes = [IdBlocks(Database(database)) for _ in range(4)]
    taken = await asyncio.gather(*(node.take(3) for node in nodes))
    assert len({number for ids in taken for number in ids}) == 12
    await connection.close()
    for node in nodes:
        await node.close()
