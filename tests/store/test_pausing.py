"""Pausing and resuming as rows: what waits, what runs, and races that end in one state only."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rota.model.attempt import Outcome
from rota.model.task import State
from rota.settle.settlement import settle
from rota.store.cancel_and_rerun import cancel_tasks
from rota.store.pausing import live_task, pause_tasks, resume_tasks
from rota.store.queue import load_stopping
from tests.store.rows import Rows

RACES = 30


async def hold_back_for(rows: Rows, task: int, hours: int) -> None:
    await rows.connection.execute(
        "update queue set paused_at = paused_at - make_interval(hours => $2) where id = $1", task, hours
    )


async def test_a_ready_task_is_held_back_and_its_tolerance_waits_with_it(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.task(tolerance=600)
    before = await rows.queued(task)
    paused = await pause_tasks(rows.connection, [task], rows.tenant, user="me")
    assert paused.held_back == [(task, 1)]
    assert await rows.state(task) is State.PAUSED
    assert await rows.start(fence, task) == []
    assert (await pause_tasks(rows.connection, [task], rows.tenant, user="me")).held_back == []  # twice is once
    await hold_back_for(rows, task, 2)
    (resumed,) = await resume_tasks(rows.connection, [task], rows.tenant, user="me")
    row = await rows.queued(task)
    assert (resumed.state, row["state"]) == (State.READY, State.READY)
    held = row["start_by"] - before["start_by"]
    assert timedelta(hours=2) <= held < timedelta(hours=2, minutes=5)
    assert row["wake_at"] - before["wake_at"] == held
    assert row["version"] == before["version"] + 2
    assert await resume_tasks(rows.connection, [task], rows.tenant, user="me") == []
    assert [row.task for row in await rows.start(fence, task)] == [task]


async def test_a_delayed_task_goes_back_to_its_time_unless_that_has_passed(rows: Rows) -> None:
    first, second = await rows.task(wait=600), await rows.task(wait=600)
    wake_at = (await rows.queued(first))["wake_at"]
    await pause_tasks(rows.connection, [first, second], rows.tenant, user="me")
    await rows.make_due(second)
    resumed = await resume_tasks(rows.connection, [first, second], rows.tenant, user="me")
    assert {one.task.id: one.state for one in resumed} == {first: State.DELAYED, second: State.READY}
    assert (await rows.queued(first))["wake_at"] == wake_at


async def test_a_blocked_task_is_not_released_while_it_is_held_back(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence)
    child = await rows.task(after=(parent,))
    await pause_tasks(rows.connection, [child], rows.tenant, user="me")
    await settle(rows.connection, fence, [rows.ended(parent, Outcome.OK)])
    assert await rows.state(child) is State.PAUSED
    (resumed,) = await resume_tasks(rows.connection, [child], rows.tenant, user="me")
    assert resumed.state is State.BLOCKED
    assert await rows.connection.fetchval("select parent_state from edges where child = $1", child) == State.DONE


@pytest.mark.parametrize("outcome", [Outcome.DISRUPTED, Outcome.RECALLED, Outcome.LOST, Outcome.ERROR])
async def test_a_running_task_is_held_back_once_its_attempt_has_ended(rows: Rows, outcome: Outcome) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=3, tolerance=600)
    paused = await pause_tasks(rows.connection, [task], rows.tenant, user="me")
    assert paused.stopping == [(task, 1, 1)]
    assert (task, 1, False) in await load_stopping(rows.connection, 1)
    assert await rows.state(task) is State.RUNNING
    settled = await settle(rows.connection, fence, [rows.ended(task, outcome)])
    assert (settled.paused, settled.ready, settled.timed, settled.ended) == ([task], [], [], [])
    row = await rows.queued(task)
    assert (row["state"], row["used"], row["pause_requested"]) == (State.PAUSED, int(outcome is Outcome.ERROR), False)
    assert (row["wake_at"] is not None) == (outcome is Outcome.ERROR)  # it backs off when it goes on
    (resumed,) = await resume_tasks(rows.connection, [task], rows.tenant, user="me")
    assert resumed.state is (State.DELAYED if outcome is Outcome.ERROR else State.READY)


async def test_its_owner_may_think_better_of_it_before_it_has_stopped(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    await pause_tasks(rows.connection, [task], rows.tenant, user="me")
    assert await resume_tasks(rows.connection, [task], rows.tenant, user="me") == []
    settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.DISRUPTED)])
    assert [one.id for one in settled.ready] == [task]


async def test_cancelled_is_stronger_than_paused(rows: Rows) -> None:
    fence = await rows.lead()
    task, waiting = await rows.running(fence), await rows.task()
    await pause_tasks(rows.connection, [task, waiting], rows.tenant, user="me")
    await cancel_tasks(rows.connection, [task, waiting], rows.tenant, "no more")
    assert await rows.state(waiting) is State.CANCELLED
    assert (await pause_tasks(rows.connection, [task], rows.tenant, user="me")).stopping == []
    found = await live_task(rows.connection, task, rows.tenant)
    assert found is not None
    assert found.cancelling
    await settle(rows.connection, fence, [rows.ended(task, Outcome.DISRUPTED)])
    assert await rows.state(task) is State.CANCELLED


async def test_nobody_else_can_pause_or_resume_it(rows: Rows) -> None:
    task = await rows.task()
    assert (await pause_tasks(rows.connection, [task], rows.tenant + 1, user="me")).held_back == []
    await pause_tasks(rows.connection, [task], rows.tenant, user="me")
    assert await resume_tasks(rows.connection, [task], rows.tenant + 1, user="me") == []
    assert await rows.state(task) is State.PAUSED


@pytest.mark.parametrize(
    ("outcome", "allowed"),
    [
        (Outcome.OK, {State.DONE}),
        (Outcome.DISRUPTED, {State.READY, State.PAUSED, State.CANCELLED}),
        (Outcome.ERROR, {State.FAILED, State.CANCELLED}),
    ],
)
async def test_pause_cancel_resume_and_an_end_at_the_same_moment_leave_one_state(
    rows: Rows, outcome: Outcome, allowed: set[State]
) -> None:
    fence = await rows.lead()
    others = [await rows.another_connection() for _ in range(3)]
    for turn in range(RACES):
        task = await rows.running(fence)
        await asyncio.gather(
            settle(rows.connection, fence, [rows.ended(task, outcome)]),
            pause_tasks(others[0], [task], rows.tenant, user="me"),
            resume_tasks(others[1], [task], rows.tenant, user="me"),
            *([cancel_tasks(others[2], [task], rows.tenant, "no more")] if turn % 2 else []),
        )
        assert await rows.state(task) in allowed  # which also says that it is in one place only
    for other in others:
        await other.close()
