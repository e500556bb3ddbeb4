"""Tasks that are dropped at their start-by time: those whose owners chose so, once, and what follows from it (R15)."""

from __future__ import annotations

import asyncio
import json

import pytest

from rota.model.attempt import Outcome
from rota.model.event import OLDEST, EventType
from rota.model.task import State, Upstream
from rota.settle.settlement import release, settle
from rota.store import events
from rota.store.cancel_and_rerun import rerun_task
from rota.store.expiry import expire_tasks
from rota.store.pausing import hold_tasks, resume_tasks
from tests.store.plans.explained import Explained
from tests.store.rows import Rows

PAST = "update queue set start_by = now() - interval '1 s' where id = any($1)"


async def expire_all(rows: Rows, at_most: int = 1000) -> set[int]:
    """Everything of this database whose time has passed; other tests drop nothing."""
    found: set[int] = set()
    while some := (await expire_tasks(rows.connection, at_most)).tasks:
        found |= {task for task, _ in some}
    return found


async def test_only_what_waits_has_never_run_and_chose_it_is_dropped(rows: Rows) -> None:
    fence = await rows.lead()
    ready, delayed = await rows.task(tolerance=60, expires=True), await rows.task(tolerance=60, wait=1, expires=True)
    kept, early = await rows.task(tolerance=60), await rows.task(tolerance=60, expires=True)
    parent = await rows.task()
    blocked = await rows.task(tolerance=60, after=(parent,), expires=True)
    held = await rows.task(tolerance=60, expires=True)
    await hold_tasks(rows.connection, [held], rows.tenant, "held", user="me")
    running = await rows.running(fence, tolerance=60, expires=True)
    tried = await rows.running(fence, tolerance=60, expires=True, attempts=2)
    await settle(rows.connection, fence, [rows.ended(tried, Outcome.ERROR)])
    others = [kept, blocked, held, running, tried]
    await rows.connection.execute(PAST, [ready, delayed, *others])
    assert await expire_all(rows) == {ready, delayed}
    assert [await rows.state(task) for task in (ready, delayed)] == [State.EXPIRED] * 2
    assert [await rows.state(task) for task in (early, *others)] == [
        State.READY, State.READY, State.BLOCKED, State.PAUSED, State.RUNNING, State.DELAYED,
    ]  # fmt: skip
    assert await expire_all(rows) == set(), "each once"


async def test_the_end_says_when_to_try_again_and_is_told_once(rows: Rows) -> None:
    tasks = [await rows.task(tolerance=600, expires=True) for _ in range(20)]
    hasty = await rows.task(tolerance=0, expires=True)
    await rows.connection.execute(PAST, [*tasks, hasty])
    while await events.record_late(rows.connection):
        pass
    await expire_all(rows)
    told = [one for one in (await events.read_events(rows.connection, rows.tenant, OLDEST)).events]
    assert {one.type for one in told} == {EventType.EXPIRED}, "nobody hears that it is late as well"
    assert sorted(one.task or 0 for one in told) == sorted([*tasks, hasty])
    assert all(one.reason is not None and one.reason.endswith("Z; try again later") for one in told)
    after = {one.task: one.retry_after for one in told}
    assert after[hasty] == 1
    seconds = [after[task] or 0.0 for task in tasks]
    assert all(450 <= one <= 750 for one in seconds), seconds
    assert len(set(seconds)) > 10, "they don't all come back at once"
    failure = await rows.connection.fetchval("select failure from attempts where task = $1", tasks[0])
    assert json.loads(failure)["retry_after"] == after[tasks[0]]


async def test_a_start_that_comes_too_late_is_refused_and_one_in_time_ends_the_choice(rows: Rows) -> None:
    fence = await rows.lead()
    late, early = await rows.task(tolerance=60, expires=True), await rows.task(tolerance=60, expires=True)
    await rows.connection.execute(PAST, [late])
    assert [row.task for row in await rows.start(fence, late, early)] == [early]
    await rows.connection.execute(PAST, [early])
    assert await expire_all(rows) == {late}
    await settle(rows.connection, fence, [rows.ended(early, Outcome.OK)])


async def test_dependents_do_what_their_edges_say(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.task(tolerance=60, expires=True)
    after = await rows.task(after=(parent,))
    however = await rows.task(after=(parent,), upstream=Upstream.RUN)
    only_failed = await rows.task(after=(parent,), upstream=Upstream.FAILED)
    chosen = await rows.task(after=(parent,), upstream=Upstream.RUN, tolerance=60, expires=True)
    await rows.connection.execute(PAST, [parent])
    expired = await expire_tasks(rows.connection)
    assert (parent in dict(expired.tasks), expired.dependent_pools) == (True, {1})
    await release(rows.connection, fence, [after, however, only_failed, chosen])
    states = [await rows.state(task) for task in (after, however, only_failed, chosen)]
    assert states == [State.SKIPPED, State.READY, State.SKIPPED, State.READY]
    assert await rows.reason(after) == f"task {parent} ended expired"
    await rows.connection.execute(PAST, [chosen])
    assert await expire_all(rows) == {chosen}, "its time began with its release"


async def test_a_held_task_is_dropped_only_after_its_release(rows: Rows) -> None:
    task = await rows.task(tolerance=60, expires=True)
    await hold_tasks(rows.connection, [task], rows.tenant, "held", user="me")
    await rows.connection.execute(PAST, [task])
    assert await expire_all(rows) == set()
    await resume_tasks(rows.connection, [task], rows.tenant, user="me")
    await rows.connection.execute(PAST, [task])
    assert await expire_all(rows) == {task}


async def test_a_new_run_of_a_dropped_task_has_the_same_choice(rows: Rows) -> None:
    task = await rows.task(tolerance=60, expires=True)
    await rows.connection.execute(PAST, [task])
    await expire_all(rows)
    again = await rows.task()
    await rows.connection.execute("delete from queue where id = $1", again)
    await rows.connection.execute("delete from tasks where id = $1", again)
    await rerun_task(rows.connection, task, rows.tenant, new_id=again, user="tester", server=0)
    assert (await rows.queued(again))["expires"]


async def test_nodes_that_look_at_once_drop_each_task_once(rows: Rows) -> None:
    tasks = [await rows.task(tolerance=60, expires=True) for _ in range(60)]
    await rows.connection.execute(PAST, tasks)
    others = [await rows.another_connection() for _ in range(3)]
    found = await asyncio.gather(*(expire_tasks(one, 25) for one in others))
    dropped = [task for expired in found for task, _ in expired.tasks]
    assert len(dropped) == len(set(dropped)) == 60
    for one in others:
        await one.close()


@pytest.mark.parametrize("empty", [True, False])
async def test_looking_for_them_keeps_to_its_index(rows: Rows, empty: bool) -> None:
    if not empty:
        await rows.connection.execute(PAST, [await rows.task(tolerance=60, expires=True)])
    explained = Explained(rows.connection)
    await expire_tasks(explained)  # type: ignore[arg-type]
    scans = {kind for kind, table, ran in explained.scans() if ran and table.startswith(("queue", "tasks", "edges"))}
    assert scans <= {"Index Scan", "Index Only Scan", "Tid Scan"}, scans


async def test_the_database_itself_refuses_an_expiry_of_what_ran(rows: Rows) -> None:
    with pytest.raises(Exception, match="expired_before_it_ran"):
        await rows.connection.execute(
            "insert into attempts (task, number, tenant, state, outcome) values (1, 1, $1, 14, 1)", rows.tenant
        )


async def test_a_leader_of_the_version_before_starts_such_tasks_and_their_retries_are_left_alone(rows: Rows) -> None:
    """It does not know the column, and leaves it as it was."""
    fence = await rows.lead()
    task = await rows.running(fence, tolerance=60, expires=True, attempts=3)
    await rows.connection.execute("update queue set expires = true where id = $1", task)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    await rows.make_due(task)
    await rows.connection.execute(PAST, [task])
    assert await expire_all(rows) == set()
    assert [row.task for row in await rows.start(fence, task)] == [task]
