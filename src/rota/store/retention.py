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

PARTITION_SIZE = 5_000_000  # ids, as admission makes partitions
MOST_SURVIVORS = 10_000  # live tasks that are moved so that a range can go; with more of them it stays
ROWS_A_ROUND = 2_000
MEMBERS_A_ROUND = 20_000
_LEDGERS = ["tasks", "attempts", "log_chunks", "task_tags"]
_LOGS = ["log_chunks"]
_TRIES = 5  # for the lock, in a round; each holds others up for as long as it is waited for
_PAUSE_SECONDS = 0.5

PUT_OFF = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


async def read_retention(connection: AnyConnection) -> Retention:
    row = await connection.fetchrow("select tasks_days, logs_days, events_days, deliveries_days from retention")
    assert row is not None, "the migration made it"
    return Retention(**row)


async def save_retention(connection: AnyConnection, retention: Retention) -> None:
    await connection.execute(
        "update retention set tasks_days = $1, logs_days = $2, events_days = $3, deliveries_days = $4",
        retention.tasks_days, retention.logs_days, retention.events_days, retention.deliveries_days,
    )  # fmt: skip


async def drop_old_events(connection: AnyConnection, days: int) -> list[str]:
    """Whole days. Those that went; a day that is in use right now stays until the next round."""
    rows = await connection.fetch(
        """select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
            where inhparent = 'events'::regclass and relname ~ '^events_[0-9]{8}$'
                and to_date(right(relname, 8), 'YYYYMMDD') + 1 <= (now() at time zone 'UTC')::date - $1::integer
            order by relname""",
        days,
    )
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
    rows = await connection.fetch(
        """select substring(relname from '[0-9]+$')::bigint as number
            from pg_inherits join pg_class on pg_class.oid = inhrelid
            where inhparent = $1::text::regclass and relname ~ '_[0-9]+$'
                and (substring(relname from '[0-9]+$')::bigint + 2) * $2::bigint
                    <= (select last_value from task_ids)
            order by 1""",
        table, PARTITION_SIZE,
    )  # fmt: skip
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
                if not await connection.fetchval("select pg_try_advisory_xact_lock(7236004)"):
                    return False
                await connection.fetchval("select drop_task_range($1, $2, $3)", tables, number, PARTITION_SIZE)
                return True
        except PUT_OFF:
            continue
    return False


async def _all_old(connection: AnyConnection, number: int, days: int, *, logs_only: bool) -> bool:
    low, high = number * PARTITION_SIZE, (number + 1) * PARTITION_SIZE
    live = await connection.fetchval(
        "select count(*) from (select from queue where id >= $1 and id < $2 limit $3) live",
        low, high, MOST_SURVIVORS + 1,
    )  # fmt: skip
    if live > MOST_SURVIVORS:
        return False
    row = await connection.fetchrow(
        """select exists (select from attempts where task >= $1 and task < $2 and state > 0),
            exists (select from attempts where task >= $1 and task < $2
                and ended_at >= now() - make_interval(days => $3))""",
        low, high, days, timeout=600,
    )  # fmt: skip
    assert row is not None
    there, young = row
    if young:
        return False
    if logs_only:  # what is left may be the survivors' own
        return bool(
            await connection.fetchval(
                """select exists (select from log_chunks where task >= $1 and task < $2
                    and not exists (select from queue where queue.id = log_chunks.task))""",
                low, high,
            )
        )  # fmt: skip
    return bool(there) or live == 0


async def forget_old_tasks(connection: AnyConnection, days: int, *, after: int) -> int:
    """Row by row, in the newest ranges, where newer tasks lie beside old ones. Where the next look begins.

    Looks at some attempts in the order of ids, which is nearly that of time; 0 means from the beginning again.
    """
    async with connection.transaction():
        if not await connection.fetchval("select pg_try_advisory_xact_lock(7236004)"):
            return 0
        last_id = await connection.fetchval("select last_value from task_ids")
        after = max(after, (last_id // PARTITION_SIZE - 1) * PARTITION_SIZE - 1)
        row = await connection.fetchrow(sql("forget_old_tasks"), after, ROWS_A_ROUND, days)
    assert row is not None
    goes_on = row["seen"] == ROWS_A_ROUND and (row["old"] or not row["young"])
    return row["last"] if goes_on else 0


async def forget_orphans(connection: AnyConnection) -> None:
    """Dead letters, links and edits of tasks whose range has gone."""
    for table in ("dead_letters", "reruns", "task_edits"):
        await connection.execute(
            f"""delete from {table} where task in (
                select task from {table}
                where task < (select coalesce(min(id), 0) from tasks)
                limit $1 for update skip locked)""",
            ROWS_A_ROUND,
        )


async def forget_members(connection: AnyConnection, *, after: int) -> int:
    """Graphs let go of members whose range has gone. Where the next look begins; 0: from the beginning again."""
    row = await connection.fetchrow(
        """with seen as materialized (
                select task from graph_tasks where task > $1 order by task limit $2),
            gone as (
                delete from graph_tasks where task in (
                    select seen.task from seen where not exists (select from tasks where tasks.id = seen.task)))
            select count(*) as seen, max(task) as last from seen""",
        after, MEMBERS_A_ROUND,
    )  # fmt: skip
    assert row is not None
    return row["last"] if row["seen"] == MEMBERS_A_ROUND else 0


async def forget_graphs(connection: AnyConnection, *, after: int) -> int:
    """Graphs of which nothing is left. They are written with their members, so one without any has had them."""
    row = await connection.fetchrow(
        """with seen as materialized (
                select id from graphs where id > $1 order by id limit $2),
            gone as (
                delete from graphs where id in (
                    select seen.id from seen
                    where not exists (select from graph_tasks where graph_tasks.graph = seen.id)))
            select count(*) as seen, max(id) as last from seen""",
        after, ROWS_A_ROUND,
    )  # fmt: skip
    assert row is not None
    return row["last"] if row["seen"] == ROWS_A_ROUND else 0
