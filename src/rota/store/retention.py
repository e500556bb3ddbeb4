"""Retention: drops whole partitions if everything in them is old, else deletes a bounded number of rows per round.

It must never touch a live task, however old, nor wait long for a lock: a lock that is not free is tried again in the
next round.
"""

from __future__ import annotations

import asyncio

import asyncpg

from rota.model.catalogue import Retention
from rota.store.database import AnyConnection
from rota.store.statements import sql
from rota.store.task_rows import PARTITION_SIZE

MOST_SURVIVORS = 10_000  # live tasks that are moved out of a range before it is dropped; with more of them it stays
ROWS_A_ROUND = 2_000
MEMBERS_A_ROUND = 20_000
_LEDGERS = ["tasks", "attempts", "log_chunks", "task_tags", "dependents"]
_LOGS = ["log_chunks"]
_TRIES = 5  # for the lock in a round; each blocks others while it waits
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
        retention.audit_days,
    )


async def drop_old_events(connection: AnyConnection, days: int) -> list[str]:
    """Drops the partitions of old days and returns their names. A day in use stays until the next round."""
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
    """Numbers of the id ranges of a table that no new task can fall into, oldest first."""
    rows = await connection.fetch(sql("retention/old_ranges"), table, PARTITION_SIZE)
    return [row["number"] for row in rows]


async def drop_old_ranges(connection: AnyConnection, days: int, *, logs_only: bool = False) -> list[int]:
    """Drops the first range whose ended tasks are all old enough. Returns its number in a list, or none."""
    for number in await old_ranges(connection, "log_chunks" if logs_only else "tasks"):
        if not await _all_old(connection, number, days, logs_only=logs_only):
            continue
        try:
            if await _drop_range(connection, _LOGS if logs_only else _LEDGERS, number):
                return [number]
        except asyncpg.UndefinedTableError:  # its logs are gone already, or another node was faster
            continue
        return []
    return []


async def _drop_range(connection: AnyConnection, tables: list[str], number: int) -> bool:
    """False: another node works on it, or the lock was not free."""
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
    if logs_only:  # the chunks left may be those of live tasks
        return bool(await connection.fetchval(sql("retention/has_old_logs"), low, high))
    return bool(there) or live == 0


async def forget_old_tasks(connection: AnyConnection, days: int, *, after: int) -> int:
    """Deletes old tasks of the newest ranges row by row. Returns where the next round begins; 0: at the beginning.

    Examines a bounded number of attempts in the order of ids, which is nearly that of time.
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
    """Deletes dead letters, links and edits of tasks whose range was dropped."""
    await connection.execute(sql("retention/forget_orphans"), ROWS_A_ROUND)


async def forget_members(connection: AnyConnection, *, after: int) -> int:
    """Deletes graph members whose range was dropped. Returns where the next round begins; 0: at the beginning."""
    row = await connection.fetchrow(sql("retention/forget_members"), after, MEMBERS_A_ROUND)
    assert row is not None
    return row["last"] if row["seen"] == MEMBERS_A_ROUND else 0


async def forget_graphs(connection: AnyConnection, *, after: int) -> int:
    """Deletes graphs without members: a graph is written with its members, so it has had some."""
    row = await connection.fetchrow(sql("retention/forget_graphs"), after, ROWS_A_ROUND)
    assert row is not None
    return row["last"] if row["seen"] == ROWS_A_ROUND else 0
