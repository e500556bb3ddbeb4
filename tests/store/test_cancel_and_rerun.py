"""Edits by an owner: cancelling what waits and what runs, running again once, and every race with the leader."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from rota.model.attempt import Outcome
from rota.model.task import Lane, State
from rota.model.tolerance import ToleranceSource
from rota.settle.settlement import settle
from rota.store.admission import take_ids
from rota.store.cancel_and_rerun import Cancelled, cancel_tasks, rerun_task
from rota.store.dead_letters import discard_dead
from rota.store.queue import load_due
from tests.store.rows import Rows, add_tenant, until_blocked


async def test_waiting_tasks_end_at_once_and_running_ones_are_asked_to(rows: Rows) -> None:
    fence = await rows.lead()
    ready, delayed, running = await rows.task(), await rows.task(wait=60), await rows.running(fence)
    blocked = await rows.task(after=(ready,))
    cancelled = await cancel_tasks(rows.connection, [ready, delayed, running, blocked], rows.tenant, "not wanted")
    cancelled.ended.sort()
    assert cancelled == Cancelled([(ready, 1), (delayed, 1), (blocked, 1)], [(running, 1, 1)], set())
    assert [await rows.state(task) for task in (ready, delayed, blocked)] == [State.CANCELLED] * 3
    assert await rows.reason(ready) == "not wanted"
    assert (await rows.queued(running))["cancel_requested"] is True


async def test_another_tenants_tasks_are_left_alone(rows: Rows) -> None:
    fence = await rows.lead()
    other = await add_tenant(rows.connection)
    theirs = [await rows.task(tenant=other), await rows.running(fence, tenant=other)]
    before = await rows.everything()
    assert await cancel_tasks(rows.connection, theirs, rows.tenant, "mine now") == Cancelled([], [], set())
    assert await rows.everything() == before


async def test_a_cancelled_copy_in_a_leaders_memory_can_not_start(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.task()
    await cancel_tasks(rows.connection, [task], rows.tenant, "not wanted")
    assert await rows.start(fence, task) == []


async def test_a_task_that_is_requeued_while_it_is_cancelled_does_not_escape(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=3)
    settling = await rows.another_connection()
    requeue = settling.transaction()
    await requeue.start()
    await settling.execute(
        """update queue set state = 2, version = version + 1, wake_at = now() + interval '1 hour', node = null,
            boot = null where id = $1""",
        task,
    )
    cancelling = asyncio.create_task(cancel_tasks(rows.connection, [task], rows.tenant, "not wanted"))
    await until_blocked(rows.database.url, rows.connection)
    await requeue.commit()
    assert await cancelling == Cancelled([(task, 1)], [], set())
    assert await rows.state(task) is State.CANCELLED
    await settling.close()


async def test_a_task_that_starts_while_it_is_cancelled_is_stopped(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.task()
    leader = await rows.another_connection()
    start = leader.transaction()
    await start.start()
    await leader.execute(
        "update queue set state = 4, version = version + 1, attempt = 1, node = 1, boot = 1, epoch = $2 where id = $1",
        task, fence.epoch,
    )  # fmt: skip
    cancelling = asyncio.create_task(cancel_tasks(rows.connection, [task], rows.tenant, "not wanted"))
    await until_blocked(rows.database.url, rows.connection)
    await start.commit()
    assert await cancelling == Cancelled([], [(task, 1, 1)], set())
    await leader.close()


async def test_cancelling_a_whole_graph_while_it_is_settled_never_fails(rows: Rows) -> None:
    fence = await rows.lead()
    other = await rows.another_connection()
    for _ in range(25):
        parents = [await rows.running(fence) for _ in range(3)]
        children = [await rows.task(after=tuple(parents)) for _ in range(3)]
        cancelled, settled = await asyncio.gather(
            cancel_tasks(other, [*children, *parents], rows.tenant, "not wanted"),
            settle(rows.connection, fence, [rows.ended(task, Outcome.OK) for task in parents]),
        )
        assert [state for _, state in settled.ended] == [State.DONE] * 3, (
            "success wins over a cancel that came too late"
        )
        assert {await rows.state(task) for task in children} == {State.CANCELLED}
        assert sorted(task for task, _ in cancelled.ended) == children
    await other.close()


async def test_an_ended_task_is_run_again_once_whoever_asks(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    connections = [await rows.another_connection() for _ in range(4)]
    ids = [await take_ids(rows.connection, 1) for _ in connections]
    runs = await asyncio.gather(
        *(
            rerun_task(connection, task, rows.tenant, new_id=number, user="ann", server=0)
            for connection, number in zip(connections, ids, strict=True)
        )
    )
    (winner,) = [run for run in runs if run.ready is not None]
    assert {run.rerun for run in runs} == {winner.rerun}
    row = await rows.connection.fetchrow(
        "select retry_of, scheduling, user_name from tasks where id = $1", winner.rerun
    )
    assert tuple(row) == (task, 4, "ann")
    assert await rows.connection.fetchval("select count(*) from tasks where id = any($1)", ids) == 1
    assert await rows.connection.fetchval("select count(*) from dead_letters where task = $1", task) == 0
    assert await rows.state(winner.rerun) is State.READY
    for connection in connections:
        await connection.close()


@pytest.mark.parametrize(("tolerance", "urgent_after"), [(600.0, 540.0), (20.0, 15.0), (4.0, -1.0), (None, None)])
async def test_a_new_run_becomes_urgent_as_any_task_with_its_tolerance_does(
    rows: Rows, tolerance: float | None, urgent_after: float | None
) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, tolerance=tolerance)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    new_id = await take_ids(rows.connection, 1)
    run = await rerun_task(rows.connection, task, rows.tenant, new_id=new_id, user="ann", server=0)
    found = await rows.connection.fetchrow(
        """select extract(epoch from queue.wake_at - tasks.created_at)::float8 as waits, tasks.urgent_at = queue.wake_at
        from queue join tasks using (id) where id = $1""",
        new_id,
    )
    assert (found["waits"], run.urgent_in_seconds) == (urgent_after, urgent_after)
    assert found[1] is (None if tolerance is None else True)
    since = [datetime(1970, 1, 1, tzinfo=UTC)]
    due = await load_due(rows.connection, 1, [rows.tenant], since, 10)
    assert [(ready.id, ready.lane) for ready, _ in due] == ([(new_id, Lane.URGENT)] if tolerance == 4.0 else [])


async def test_a_new_run_keeps_who_gave_its_tolerance_and_how_much_later_than_its_place_it_is_late(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    source = ToleranceSource.PLAN
    await rows.connection.execute(
        "update tasks set leeway_ms = 7000, tolerance_source = $2 where id = $1", task, source
    )
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    new_id = await take_ids(rows.connection, 1)
    run = await rerun_task(rows.connection, task, rows.tenant, new_id=new_id, user="ann", server=0)
    assert run.ready is not None
    assert run.ready.late_us == run.ready.start_by_us + 7_000_000
    stored = await rows.connection.fetchrow("select leeway_ms, tolerance_source from tasks where id = $1", new_id)
    assert tuple(stored) == (7000, source)


async def test_dead_letters_are_discarded_and_their_history_stays(rows: Rows) -> None:
    fence = await rows.lead()
    other = await add_tenant(rows.connection)
    ours, theirs = await rows.running(fence), await rows.running(fence, tenant=other)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR) for task in (ours, theirs)])
    assert await discard_dead(rows.connection, [ours, theirs], rows.tenant) == [ours]
    assert await rows.state(ours) is State.FAILED
    assert await rows.connection.fetchval("select count(*) from dead_letters where task = $1", theirs) == 1
