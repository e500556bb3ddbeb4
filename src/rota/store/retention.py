"""Letting go of what is old: whole partitions where all of it is, some rows a round where newer things lie beside.

A task that still waits or runs is never touched, however old it is. Nothing here waits for a lock for long: what can't
be had now is tried again in the next round.
"""

from __future__ import annotations

import asyncio

import asyncpg

from rota.model.catalogue import Retention
from rota.store.database import AnyConnection
from rota.store.statements import sql
from rota.store.task_rows import PARTITION_SIZE

MOST_SURVIVORS = 10_000  # live tasks that are moved so that a range can go; with more of them it stays
ROWS_A_ROUND = 2_000
MEMBERS_A_ROUND = 20_000
_LEDGERS = ["tasks", "attempts", "log_chunks", "task_tags"]
_LOGS = ["log_chunks"]
_TRIES = 5  # for the lock, in a round; each holds others up for as long as it is waited for
_PAUSE_SECONDS = 0.5

PUT_OFF = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


async def read_retention(connection: AnyConnection) -> Retention:
    row = await connection.fetchrow(sql("retention/read_retention"))
    assert row is not None, "the migration made it"
    return Retention(**row)


async def save_retention(connection: AnyConnection, retention: Retention) -> None:
    await connection.execute(
        sql("retention/save_retention"),
        retention.tasks_days,
        retention.logs_days,
        retention.events_days,
        retention.deliveries_days,
    )


async def drop_old_events(connection: AnyConnection, days: int) -> list[str]:
    """Whole days. Those that went; a day that is in use right now stays until the next round."""
    rows = await connection.fetch(sql("retention/old_event_partitions"), days)
    gone = []
    for row in rows:
        try:
            async with connection.transaction():
                await connection.execute("set local lock_timeout = '500ms'")
                await connection.execute(f'drop table "{row["relname"]}"')
            gone.append(row["relname"])
        except PUT_OFF:
            break
    return gone


async def old_ranges(connection: AnyConnection, table: str) -> list[int]:
    """Numbers of a ledger's id ranges that no new task can fall into, oldest first."""
    rows = await connection.fetch(sql("retention/old_ranges"), table, PARTITION_SIZE)
    return [row["number"] for row in rows]


async def drop_old_ranges(connection: AnyConnection, days: int, *, logs_only: bool = False) -> list[int]:
    """Ranges of which everything that ended did so long enough ago. Those that went, at most one a call."""
    for number in await old_ranges(connection, "log_chunks" if logs_only else "tasks"):
        if not await _all_old(connection, number, days, logs_only=logs_only):
            continue
        try:
            if await _drop_range(connection, _LOGS if logs_only else _LEDGERS, number):
                return [number]
        except asyncpg.UndefinedTableError:  # of its logs, or another node was faster
            continue
        return []
    return []


async def _drop_range(connection: AnyConnection, tables: list[str], number: int) -> bool:
    """False: another node is at it, or the lock could not be had."""
    for turn in range(_TRIES):
        if turn:
            await asyncio.sleep(_PAUSE_SECONDS)
        try:
            async with connection.transaction():
                if not await connection.fetchval(sql("retention/try_retention_lock")):
                    return False
                await connection.fetchval(sql("retention/drop_task_range"), tables, number, PARTITION_SIZE)
                return True
        except PUT_OFF:
            continue
    return False


async def _all_old(connection: AnyConnection, number: int, days: int, *, logs_only: bool) -> bool:
    low, high = number * PARTITION_SIZE, (number + 1) * PARTITION_SIZE
    live = await connection.fetchval(sql("retention/count_survivors"), low, high, MOST_SURVIVORS + 1)
    if live > MOST_SURVIVORS:
        return False
    row = await connection.fetchrow(sql("retention/ages_of_range"), low, high, days, timeout=600)
    assert row is not None
    there, young = row
    if young:
        return False
    if logs_only:  # what is left may be the survivors' own
        return bool(await connection.fetchval(sql("retention/has_old_logs"), low, high))
    return bool(there) or live == 0


async def forget_old_tasks(connection: AnyConnection, days: int, *, after: int) -> int:
    """Row by row, in the newest ranges, where newer tasks lie beside old ones. Where the next look begins.

    Looks at some attempts in the order of ids, which is nearly that of time; 0 means from the beginning again.
    """
    async with connection.transaction():
        if not await connection.fetchval(sql("retention/try_retention_lock")):
            return 0
        last_id = await connection.fetchval(sql("retention/last_task_id"))
        after = max(after, (last_id // PARTITION_SIZE - 1) * PARTITION_SIZE - 1)
        row = await connection.fetchrow(sql("retention/forget_old_tasks"), after, ROWS_A_ROUND, days)
    assert row is not None
    goes_on = row["seen"] == ROWS_A_ROUND and (row["old"] or not row["young"])
    return row["last"] if goes_on else 0


async def forget_orphans(connection: AnyConnection) -> None:
    """Dead letters, links and edits of tasks whose range has gone."""
    await connection.execute(sql("retention/forget_orphans"), ROWS_A_ROUND)


async def forget_members(connection: AnyConnection, *, after: int) -> int:
    """Graphs let go of members whose range has gone. Where the next look begins; 0: from the beginning again."""
    row = await connection.fetchrow(sql("retention/forget_members"), after, MEMBERS_A_ROUND)
    assert row is not None
    return row["last"] if row["seen"] == MEMBERS_A_ROUND else 0


async def forget_graphs(connection: AnyConnection, *, after: int) -> int:
    """Graphs of which nothing is left. They are written with their members, so one without any has had them."""
    row = await connection.fetchrow(sql("retention/forget_graphs"), after, ROWS_A_ROUND)
    assert row is not None
    return row["last"] if row["seen"] == ROWS_A_ROUND else 0
