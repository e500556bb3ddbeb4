"""The log of events: each state change is told once, in an order that no late transaction can change."""

from __future__ import annotations

from rota.model.attempt import Outcome
from rota.model.event import OLDEST, Event, EventCursor, EventType
from rota.model.tolerance import ToleranceSource
from rota.settle.settlement import settle
from rota.store import admission, cancel_and_rerun, events, pausing
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
    nobody_said, by_plan, in_a_lane_that_does_not_promote = [await rows.task() for _ in range(3)]
    for task, source in ((by_plan, ToleranceSource.PLAN), (in_a_lane_that_does_not_promote, ToleranceSource.GIVEN)):
        await rows.connection.execute("update tasks set tolerance_source = $2 where id = $1", task, source)
    overdue = [waits, starts, nobody_said, by_plan, in_a_lane_that_does_not_promote]
    await rows.connection.execute("update queue set start_by = now() - interval '1 s' where id = $1", waits)
    while await events.record_late(rows.connection):
        pass
    await rows.connection.execute("update queue set start_by = now() - interval '1 s' where id = any($1)", overdue)
    await rows.start(fence, *overdue, in_time)
    found = [event for event in await told(rows) if event.type is EventType.LATE]
    assert [event.task for event in found] == [waits, starts, in_a_lane_that_does_not_promote]
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


async def test_submissions_are_told_whatever_their_ids_and_in_order_of_them(rows: Rows) -> None:
    tasks = [await rows.task() for _ in range(6)]
    left_out = tasks.pop(3)  # of a batch that was refused in part
    await admission.record_submitted(rows.connection, {rows.tenant: tasks[::-1]})
    found = await told(rows)
    assert words(found) == [(EventType.SUBMITTED, task) for task in sorted(tasks)]
    assert left_out not in {event.task for event in found}
    assert {(event.user, event.attempt, event.node) for event in found} == {("tester", None, None)}
    again = await told(rows, after=found[2].cursor)
    assert words(again) == words(found[3:]), "a listener goes on in the middle of a batch"


async def test_a_promotion_is_told_once_and_before_the_start(rows: Rows) -> None:
    fence = await rows.lead()
    noticed, started = await rows.task(tolerance=3600), await rows.task(tolerance=3600)
    for task in (noticed, started):
        await rows.make_due(task)
    for _ in range(2):
        await events.record_promoted(rows.connection, [noticed])
    await rows.start(fence, noticed, started)
    of_each = {task: [kind for kind, own in words(await told(rows)) if own == task] for task in (noticed, started)}
    assert of_each == dict.fromkeys((noticed, started), [EventType.PROMOTED, EventType.STARTED])


async def test_a_task_whose_time_is_not_near_is_not_promoted(rows: Rows) -> None:
    later, plain = await rows.task(tolerance=3600), await rows.task(wait=0.0)
    await events.record_promoted(rows.connection, [later, plain])
    assert await told(rows) == []


async def test_a_late_retry_that_rises_is_a_promotion(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=3, tolerance=30, backoff_ms=90_000)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    assert words(await told(rows))[-2:] == [(EventType.FAILED, task), (EventType.PROMOTED, task)]


async def test_a_running_task_is_paused_when_it_has_stopped(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    await pausing.pause_tasks(rows.connection, [task], rows.tenant, user="ann")
    assert words(await told(rows)) == [(EventType.STARTED, task)]
    await settle(rows.connection, fence, [rows.ended(task, Outcome.DISRUPTED)])
    await pausing.resume_tasks(rows.connection, [task], rows.tenant, user="ann")
    found = await told(rows)
    assert words(found)[1:] == [(EventType.PAUSED, task), (EventType.RESUMED, task)]
    assert found[-1].user == "ann"


async def test_a_pause_that_becomes_a_hold_is_released(rows: Rows) -> None:
    task = await rows.task()
    await pausing.pause_tasks(rows.connection, [task], rows.tenant, user="ann")
    for _ in range(2):
        await pausing.hold_tasks(rows.connection, [task], rows.tenant, "held by bob", user="bob")
    await pausing.resume_tasks(rows.connection, [task], rows.tenant, user="ann")
    found = [(event.type, event.user, event.reason) for event in await told(rows)]
    assert found == [
        (EventType.PAUSED, "ann", None), (EventType.HELD, "bob", "held by bob"), (EventType.RELEASED, "ann", None),
    ]  # fmt: skip


async def test_only_rows_that_can_hold_the_wanted_types_are_read(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    await admission.record_submitted(rows.connection, {rows.tenant: [task]})
    await settle(rows.connection, fence, [rows.ended(task, Outcome.OK)])
    for wanted, kinds in (
        ({EventType.DONE}, [EventType.DONE]),
        ({EventType.SUBMITTED, EventType.LATE}, [EventType.SUBMITTED]),
        (set(EventType), [EventType.STARTED, EventType.SUBMITTED, EventType.DONE]),
    ):
        read = await events.read_events(rows.connection, rows.tenant, OLDEST, types=wanted)
        assert [event.type for event in read.events] == kinds
        assert not read.full
