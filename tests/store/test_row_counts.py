"""The numbers of live tasks and dead letters are exact without counting the tables, whoever changes them."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from rota.store import cleaning
from rota.store.cleaning import FEW_DIFFERENCES
from rota.store.reading import row_counts
from tests.store.rows import Rows

FAR = 2**50  # no other test has letters of such tasks
DEAD = "insert into dead_letters (task, tenant, reason) select n, 1, 'x' from generate_series($1::bigint, $2::bigint) n"


async def exact(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, int]:
    counted = await row_counts(connection)
    for table in ("queue", "dead_letters"):
        assert counted[table] == await connection.fetchval(f"select count(*) from {table}")
    return counted


async def test_the_counts_follow_every_statement_that_adds_or_removes_rows(rows: Rows) -> None:
    connection = rows.connection
    before = await exact(connection)
    first, second = await rows.task(), await rows.task()
    assert (await exact(connection))["queue"] == before["queue"] + 2
    await connection.execute("update queue set version = version + 1 where id = $1", first)
    await connection.execute("delete from queue where id = any($1)", [first, second])
    await connection.execute(DEAD, FAR, FAR + 6)
    await connection.execute("delete from dead_letters where task between $1 and $2", FAR, FAR + 1)
    counted = await exact(connection)
    assert (counted["queue"], counted["dead_letters"]) == (before["queue"], before["dead_letters"] + 5)


async def test_what_is_rolled_back_is_not_counted(rows: Rows) -> None:
    connection = rows.connection
    before = await exact(connection)
    with pytest.raises(ZeroDivisionError):
        async with connection.transaction():
            await connection.execute(DEAD, 2 * FAR, 2 * FAR + 6)
            raise ZeroDivisionError
    assert await exact(connection) == before


async def test_differences_are_folded_while_others_are_added_and_removed(rows: Rows) -> None:
    connection = rows.connection
    others = [await asyncpg.connect(rows.database.url) for _ in range(3)]

    async def work(number: int) -> None:
        for step in range(FEW_DIFFERENCES):
            first = FAR * (number + 3) + 10 * step
            await others[number].execute(DEAD, first, first + 9)
            await others[number].execute("delete from dead_letters where task = $1", first)
            await cleaning.fold_row_counts(others[number])

    before = await exact(connection)
    await asyncio.gather(*(work(number) for number in range(3)))
    counted = await exact(connection)
    assert counted["dead_letters"] == before["dead_letters"] + 3 * 9 * FEW_DIFFERENCES
    await cleaning.fold_row_counts(connection)
    assert await connection.fetchval("select count(*) from row_counts") <= FEW_DIFFERENCES + 2
    for other in others:
        await other.close()
