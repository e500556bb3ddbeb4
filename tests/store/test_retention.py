"""Retention: whole ranges go while tasks flow, and what still waits survives, however old it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.model.attempt import Outcome
from rota.model.catalogue import Retention
from rota.model.task import State
from rota.server.housekeeping import retain, retain_graphs
from rota.settle.settlement import settle
from rota.store import events, retention
from rota.store.statements import sql
from rota.store.task_rows import PARTITION_SIZE
from tests.harness.postgres import TestPostgres
from tests.store.rows import Rows

OLD = "update attempts set ended_at = now() - interval '40 days' where task = any($1)"


@pytest.fixture
async def rows(postgres: TestPostgres) -> AsyncIterator[Rows]:
    """A database of its own: whole partitions go."""
    opened = await Rows.open(await postgres.create_async())
    yield opened
    await opened.close()


def kept(**days: int) -> Retention:
    nothing = {"tasks_days": None, "logs_days": None, "events_days": None, "deliveries_days": None}
    return Retention(**{**nothing, **days})  # type: ignore[arg-type]


async def later_range(rows: Rows) -> None:
    """New tasks have ids three ranges on."""
    for number in range(3, 6):
        await rows.connection.execute("select make_partition($1, $2)", number * PARTITION_SIZE, PARTITION_SIZE)
    await rows.connection.execute("select setval('task_ids', $1)", 3 * PARTITION_SIZE)


async def done(rows: Rows, amount: int) -> list[int]:
    fence = await rows.lead()
    tasks = [await rows.running(fence) for _ in range(amount)]
    await settle(rows.connection, fence, [rows.ended(task, Outcome.OK) for task in tasks])
    return tasks


async def there(rows: Rows, tasks: list[int]) -> list[int]:
    found = await rows.connection.fetch("select id from tasks where id = any($1) order by id", tasks)
    return [row["id"] for row in found]


async def test_a_range_goes_while_tasks_flow_and_what_waits_survives(rows: Rows) -> None:
    old = await done(rows, 5)
    waiting = await rows.task(wait=3600)
    fence = await rows.lead()
    running = await rows.running(fence)
    await rows.connection.execute(OLD, old)
    await later_range(rows)
    await retention.save_retention(rows.connection, kept(tasks_days=30))
    stop = asyncio.Event()
    flowed: list[int] = []

    async def flow() -> None:
        other = await Rows.open(rows.database.url)
        try:
            while not stop.is_set():
                task = await other.running(fence)
                await settle(other.connection, fence, [other.ended(task, Outcome.OK)])
                flowed.append(task)
        finally:
            await other.close()

    flowing = asyncio.create_task(flow())
    try:
        async with asyncio.timeout(20):
            while await there(rows, old) or len(flowed) < 20:
                await retain(rows.database, 0)
                await asyncio.sleep(0.01)
    finally:
        stop.set()
        await flowing
    assert await there(rows, [*old, waiting, running]) == sorted([waiting, running])
    assert await there(rows, flowed) == flowed
    assert await rows.state(waiting) is State.DELAYED
    await settle(rows.connection, fence, [rows.ended(running, Outcome.OK)])
    assert await rows.state(running) is State.DONE
    parts = await rows.connection.fetch("select relname from pg_class where relname ~ '^tasks_[0-9]+$' order by 1")
    assert [row["relname"] for row in parts] == ["tasks_0", "tasks_2", "tasks_3", "tasks_4", "tasks_5"]


async def test_a_range_with_something_younger_stays(rows: Rows) -> None:
    old, young = await done(rows, 2), await done(rows, 1)
    await rows.connection.execute(OLD, old)
    await later_range(rows)
    assert await retention.drop_old_ranges(rows.connection, 30) == [1]  # nobody ever used it
    assert await retention.drop_old_ranges(rows.connection, 30) == []
    assert await there(rows, old + young) == old + young


async def test_in_the_newest_range_old_tasks_go_row_by_row(rows: Rows) -> None:
    old, young = await done(rows, 3), await done(rows, 2)
    waiting = await rows.task(wait=3600)
    await rows.connection.execute(OLD, old)
    await retention.save_retention(rows.connection, kept(tasks_days=30))
    assert await retain(rows.database, 0) == 0
    assert await there(rows, [*old, *young, waiting]) == [*young, waiting]
    left = await rows.connection.fetchval("select count(*) from attempts where task = any($1)", old)
    assert left == 0


async def test_logs_may_go_before_their_tasks(rows: Rows) -> None:
    old = await done(rows, 2)
    waiting = await rows.task(wait=3600)
    for task in (*old, waiting):
        await rows.connection.execute("insert into log_chunks values ($1, 1, 0, 1, 'x')", task)
    await rows.connection.execute(OLD, old)
    await later_range(rows)
    await retention.save_retention(rows.connection, kept(logs_days=30))
    await retain(rows.database, 0)
    assert await rows.connection.fetch("select task from log_chunks") == [(waiting,)]
    assert await there(rows, old) == old
    assert await retention.drop_old_ranges(rows.connection, 30, logs_only=True) in ([], [1])


async def test_events_go_by_the_day(rows: Rows) -> None:
    await rows.connection.execute(
        """select make_event_partition((now() at time zone 'UTC')::date - 40);
            insert into events (tenant, kind, tasks, at) values (1, 1, '{1}', now() - interval '40 days')"""
    )
    await done(rows, 1)
    await retention.save_retention(rows.connection, kept(events_days=30))
    await retain(rows.database, 0)
    assert await rows.connection.fetchval("select count(*) from events where at < now() - interval '30 days'") == 0
    assert len((await events.read_events(rows.connection, rows.tenant, events.EventCursor(0))).events) == 2


async def test_kept_for_ever_is_kept(rows: Rows) -> None:
    old = await done(rows, 2)
    await rows.connection.execute(OLD, old)
    await later_range(rows)
    await retention.save_retention(rows.connection, kept())
    await retain(rows.database, 0)
    assert await there(rows, old) == old


async def in_graph(rows: Rows, graph: int, tasks: list[int]) -> None:
    await rows.connection.execute(
        sql("graphs/insert_graph"), graph, rows.tenant, "etl", "u", False, None, None, None, False
    )
    await rows.connection.executemany(
        "insert into graph_tasks (graph, task, tenant, name, place) values ($1, $2, $3, $4, $5)",
        [(graph, task, rows.tenant, f"t{place}", place) for place, task in enumerate(tasks)],
    )


async def graphs_left(rows: Rows) -> list[tuple[int, int]]:
    """(graph, how many members) of each."""
    found = await rows.connection.fetch(
        """select graphs.id, (select count(*) from graph_tasks where graph = graphs.id) as members
            from graphs order by id"""
    )
    return [(row["id"], row["members"]) for row in found]


@pytest.mark.parametrize("by_range", [True, False])
async def test_a_graph_goes_with_the_last_of_its_tasks(rows: Rows, by_range: bool) -> None:
    gone, half, young = await done(rows, 2), await done(rows, 2), await done(rows, 2)
    waiting = await rows.task(wait=3600)
    for graph, tasks in ((901, gone), (902, [*half, waiting]), (903, young)):
        await in_graph(rows, graph, tasks)
    await rows.connection.execute(
        "insert into task_edits (task, tenant, user_name, changes, tolerance) values ($1, $2, 'u', '{}', false)",
        gone[0], rows.tenant,
    )  # fmt: skip
    await retention.save_retention(rows.connection, kept(tasks_days=30))
    if by_range:
        await rows.connection.execute(OLD, [*gone, *half, *young])
        await later_range(rows)
        later = await done(rows, 1)
        await in_graph(rows, 904, later)
        expected = [(902, 1), (904, 1)]
    else:
        await rows.connection.execute(OLD, [*gone, *half])
        expected = [(902, 1), (903, 2)]
    assert await retain_graphs(rows.database, 0, 0) == (0, 0)
    assert len(await graphs_left(rows)) == len(expected) + (2 if by_range else 1), "their tasks are still there"
    async with asyncio.timeout(20):
        while await there(rows, gone):
            await retain(rows.database, 0)
    assert await retain_graphs(rows.database, 0, 0) == (0, 0)
    assert await graphs_left(rows) == expected
    counted = await rows.connection.fetchval("select graphs from graph_counts where tenant = $1", rows.tenant)
    assert counted == len(expected)
    await retain(rows.database, 0)
    assert await rows.connection.fetchval("select count(*) from task_edits") == 0


async def test_a_look_at_graphs_goes_on_where_the_last_one_ended(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = await done(rows, 5)
    for number, task in enumerate(tasks):
        await in_graph(rows, 901 + number, [task])
    await rows.connection.execute("delete from tasks where id = any($1)", tasks[3:])
    await retention.save_retention(rows.connection, kept(tasks_days=30))
    monkeypatch.setattr(retention, "MEMBERS_A_ROUND", 2)
    monkeypatch.setattr(retention, "ROWS_A_ROUND", 2)
    place = (0, 0)
    for _ in range(6):
        place = await retain_graphs(rows.database, *place)
    assert await graphs_left(rows) == [(901, 1), (902, 1), (903, 1)]
