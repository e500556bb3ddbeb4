"""The log of events: each state change is told once, in an order that no late transaction can change."""

from __future__ import annotations

from rota.model.attempt import Outcome
from rota.model.event import OLDEST, Event, EventCursor, EventType
from rota.settle.settlement import settle
from rota.store import cancel_and_rerun, events
from rota.store.database import Connection
from rota.wire import Failure
from tests.store.plans.explained import Explained
from tests.store.rows import Rows


async def told(rows: Rows, after: EventCursor = OLDEST, connection: Connection | None = None) -> list[Event]:
    """Everything after a place, read as a listener reads it."""
    found: list[Event] = []
    while True:
        read = await events.read_events(connection or rows.connection, rows.tenant, after)
        found += read.events
        after = read.cursor
        if not read.full:
            return found


def words(found: list[Event]) -> list[tuple[EventType, int | None]]:
    return [(event.type, event.task) for event in found]


async def test_a_life_is_told_in_its_order(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=2, name="etl")
    await settle(rows.connection, fence, [rows.ended(task, Outcome.TIMEOUT, failure=Failure("timeout", "too long"))])
    await rows.make_due(task)
    await rows.start(fence, task)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR, failure=Failure("exit-code", "exited 3"))])
    found = await told(rows)
    assert words(found) == [
        (EventType.STARTED, task), (EventType.FAILED, task),
        (EventType.STARTED, task), (EventType.FAILED, task), (EventType.DEAD_LETTERED, task),
    ]  # fmt: skip
    assert [event.attempt for event in found] == [1, 1, 2, 2, 2]
    assert [event.limit for event in found] == [None, "cap", None, None, None]
    assert found[-1].state == "failed"
    assert found[-1].reason == "attempt 2 of 2: exit-code: exited 3"
    assert {event.name for event in found} == {"etl"}


async def test_ends_of_every_kind_are_told(rows: Rows) -> None:
    fence = await rows.lead()
    done, failed = await rows.running(fence), await rows.running(fence)
    child = await rows.task(after=(failed,))
    waiting = await rows.task()
    await settle(rows.connection, fence, [rows.ended(done, Outcome.OK), rows.ended(failed, Outcome.ERROR)])
    await cancel_and_rerun.cancel_tasks(rows.connection, [waiting], rows.tenant, "not wanted")
    ends = [one for one in words(await told(rows)) if one[0] is not EventType.STARTED]
    assert ends == [
        (EventType.DONE, done), (EventType.FAILED, failed), (EventType.DEAD_LETTERED, failed),
        (EventType.SKIPPED, child), (EventType.CANCELLED, waiting),
    ]  # fmt: skip


async def test_recalls_and_disruptions_are_nobodys_news(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.RECALLED, failure=None)])
    assert words(await told(rows)) == [(EventType.STARTED, task)]


async def test_a_transaction_that_commits_late_is_neither_missed_nor_overtaken(rows: Rows) -> None:
    fence = await rows.lead()
    first, second = await rows.task(), await rows.task()
    other = await rows.another_connection()
    slow = other.transaction()
    await slow.start()
    await other.execute("insert into events (tenant, kind, tasks, numbers) values ($1, 1, $2, '{1}')",
                        rows.tenant, [first])  # fmt: skip
    await rows.start(fence, second)
    assert await told(rows) == []  # the second may not be told before the first is
    cursor = (await events.read_events(rows.connection, rows.tenant, OLDEST)).cursor
    await slow.commit()
    await other.close()
    assert words(await told(rows, cursor)) == [(EventType.STARTED, first), (EventType.STARTED, second)]


async def test_from_every_place_on_the_rest_follows_once(rows: Rows) -> None:
    fence = await rows.lead()
    tasks = [await rows.task() for _ in range(5)]
    await rows.start(fence, *tasks)
    reports = [rows.ended(task, Outcome.OK if task % 2 else Outcome.ERROR) for task in tasks]
    await settle(rows.connection, fence, reports)
    found = await told(rows)
    assert len({event.cursor for event in found}) == len(found)
    assert sorted(found, key=lambda event: event.cursor) == found
    for number, event in enumerate(found):
        assert await told(rows, EventCursor.read(str(event.cursor)) or OLDEST) == found[number + 1 :]


async def test_a_late_task_is_told_once_whether_it_waits_or_starts(rows: Rows) -> None:
    fence = await rows.lead()
    waits, starts, in_time = [await rows.task(tolerance=60) for _ in range(3)]
    nobody_said = await rows.task()
    overdue = [waits, starts, nobody_said]
    await rows.connection.execute("update queue set start_by = now() - interval '1 s' where id = $1", waits)
    while await events.record_late(rows.connection):
        pass
    await rows.connection.execute("update queue set start_by = now() - interval '1 s' where id = any($1)", overdue)
    await rows.start(fence, *overdue, in_time)
    found = [event for event in await told(rows) if event.type is EventType.LATE]
    assert [event.task for event in found] == [waits, starts]
    assert await events.record_late(rows.connection) == 0


async def test_a_listener_sees_its_own_tenant_alone(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    async with rows.database.tenant(rows.tenant + 1) as connection:
        assert (await events.read_events(connection, rows.tenant, OLDEST)).events == []
    async with rows.database.tenant(rows.tenant) as connection:
        assert words((await events.read_events(connection, rows.tenant, OLDEST)).events) == [(EventType.STARTED, task)]


async def test_reading_the_log_keeps_to_its_index(rows: Rows) -> None:
    fence = await rows.lead()
    await rows.running(fence)
    explained = Explained(rows.connection)
    await events.read_events(explained, rows.tenant, OLDEST)  # type: ignore[arg-type]
    await events.record_late(explained)  # type: ignore[arg-type]
    assert {kind for kind, table, ran in explained.scans() if ran and table.startswith(("events", "tasks", "queue"))} <= {
        "Index Scan", "Index Only Scan", "Tid Scan"
    }  # fmt: skip
