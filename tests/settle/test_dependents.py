"""What the end of a task means for those that wait for it: released once, skipped in a cascade, or run all the same."""

from __future__ import annotations

import asyncio

import pytest

from rota.model.attempt import Outcome
from rota.model.task import State, Upstream
from rota.settle.settlement import Settled, release, settle
from rota.store import admission
from rota.store.cancel_and_rerun import cancel_tasks
from rota.store.queue import Fence
from tests.store.rows import Rows

RACES = 100


async def test_a_child_is_ready_when_its_last_parent_is_done(rows: Rows) -> None:
    fence = await rows.lead()
    first, second = await rows.running(fence), await rows.running(fence)
    child = await rows.task(after=(first, second))
    settled = await settle(rows.connection, fence, [rows.ended(first, Outcome.OK)])
    assert settled.ready == []
    assert await rows.state(child) is State.BLOCKED
    settled = await settle(rows.connection, fence, [rows.ended(second, Outcome.OK)])
    assert [task.id for task in settled.ready] == [child]
    assert await rows.state(child) is State.READY
    assert await rows.connection.fetchval("select count(*) from edges where child = $1", child) == 0


async def test_two_parents_that_end_at_the_same_moment_release_their_child_once(rows: Rows) -> None:
    fence = await rows.lead()
    other = await rows.another_connection()
    for _ in range(RACES):
        first, second = await rows.running(fence), await rows.running(fence)
        child = await rows.task(after=(first, second))
        settled = await asyncio.gather(
            settle(rows.connection, fence, [rows.ended(first, Outcome.OK)]),
            settle(other, fence, [rows.ended(second, Outcome.OK)]),
        )
        released = [task.id for one in settled for task in one.ready]
        late = await rows.connection.fetchval("select array_agg(child) from edges where child = $1", child)
        if late:  # neither saw the other's commit: the leader's slow poll finds the resolved edges
            released += [task.id for task in (await release(rows.connection, fence, late)).ready]
        assert released == [child]
        row = await rows.queued(child)
        assert (row["state"], row["version"]) == (State.READY, 1)
    await other.close()


async def test_a_child_admitted_while_its_parent_ends_is_seen(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence)
    admitting = await rows.another_connection()
    transaction = admitting.transaction()
    await transaction.start()
    known = await admission.lock_parents(admitting, [parent])
    assert known[parent].state is None
    settling = asyncio.create_task(settle(rows.connection, fence, [rows.ended(parent, Outcome.OK)]))
    child = await rows.task(after=(parent,), connection=admitting)  # a savepoint inside the open transaction
    assert not settling.done(), "the parent is kept from ending until the child is committed"
    await transaction.commit()
    assert [task.id for task in (await settling).ready] == [child]
    await admitting.close()


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_skipping_goes_down_level_by_level_until_nobody_waits(rows: Rows, end: str) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence) if end == "failed" else await rows.task()
    levels = [[parent]]
    for _ in range(4):
        levels.append([await rows.task(after=tuple(levels[-1])), await rows.task(after=(levels[-1][0],))])
    if end == "failed":
        settled = await settle(rows.connection, fence, [rows.ended(parent, Outcome.ERROR)])
    else:
        cancelled = await cancel_tasks(rows.connection, [parent], rows.tenant, "not wanted")
        assert cancelled.dependent_pools == {1}
        settled = Settled(more_dependents=levels[1])
    await _cascade(rows, fence, settled)
    below = [task for level in levels[1:] for task in level]
    assert {await rows.state(task) for task in below} == {State.SKIPPED}
    assert await rows.reason(levels[1][0]) == f"task {parent} ended {end}"
    assert await rows.reason(levels[4][0]) == f"task {levels[3][0]} ended skipped"
    assert await rows.connection.fetchval("select count(*) from edges where child = any($1)", below) == 0
    assert await rows.connection.fetchval("select count(*) from dead_letters where task = any($1)", below) == 0


async def test_a_child_that_wants_to_run_anyway_does_and_its_own_children_see_it_done(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence)
    cleaner = await rows.task(after=(parent,), upstream=Upstream.RUN)
    last = await rows.task(after=(cleaner,))
    settled = await settle(rows.connection, fence, [rows.ended(parent, Outcome.ERROR)])
    assert [task.id for task in settled.ready] == [cleaner]
    await rows.start(fence, cleaner)
    settled = await settle(rows.connection, fence, [rows.ended(cleaner, Outcome.OK)])
    assert [task.id for task in settled.ready] == [last]


async def test_a_child_that_runs_anyway_still_waits_for_all_its_parents(rows: Rows) -> None:
    fence = await rows.lead()
    failed, slow = await rows.running(fence), await rows.running(fence)
    child = await rows.task(after=(failed, slow), upstream=Upstream.RUN)
    await settle(rows.connection, fence, [rows.ended(failed, Outcome.ERROR)])
    assert await rows.state(child) is State.BLOCKED
    settled = await settle(rows.connection, fence, [rows.ended(slow, Outcome.OK)])
    assert [task.id for task in settled.ready] == [child]


async def test_a_child_that_wants_a_failure_runs_after_one_and_is_skipped_otherwise(rows: Rows) -> None:
    fence = await rows.lead()
    ends = {Outcome.ERROR: State.READY, Outcome.OK: State.SKIPPED, Outcome.CANCELLED: State.SKIPPED}
    for outcome, fate in ends.items():
        parent = await rows.running(fence)
        child = await rows.task(after=(parent,), upstream=Upstream.FAILED)
        await settle(rows.connection, fence, [rows.ended(parent, outcome)])
        assert await rows.state(child) is fate
    assert await rows.reason(child) == f"task {parent} ended cancelled"


async def test_one_failed_parent_skips_the_child_though_others_still_run(rows: Rows) -> None:
    fence = await rows.lead()
    failed, slow = await rows.running(fence), await rows.running(fence)
    child = await rows.task(after=(failed, slow))
    await settle(rows.connection, fence, [rows.ended(failed, Outcome.ERROR)])
    assert await rows.state(child) is State.SKIPPED
    settled = await settle(rows.connection, fence, [rows.ended(slow, Outcome.OK)])
    assert settled == Settled(ended=[(slow, State.DONE)])


async def test_a_retried_parent_does_not_release_anybody_yet(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence, attempts=2)
    child = await rows.task(after=(parent,))
    await settle(rows.connection, fence, [rows.ended(parent, Outcome.ERROR)])
    assert await rows.state(child) is State.BLOCKED


async def test_a_child_with_a_tolerance_of_its_own_is_ready_at_once_and_urgent_near_its_end(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence)
    child = await rows.task(after=(parent,), tolerance=600)
    settled = await settle(rows.connection, fence, [rows.ended(parent, Outcome.OK)])
    assert [(task.id, task.lane) for task in settled.ready] == [(child, 1)]
    row = await rows.queued(child)
    assert row["state"] == State.READY
    assert (row["start_by"] - row["wake_at"]).total_seconds() == 60


async def test_a_child_with_a_time_of_its_own_waits_for_it(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence)
    child = await rows.task(after=(parent,), wait=600)
    settled = await settle(rows.connection, fence, [rows.ended(parent, Outcome.OK)])
    assert ([task.id for task in settled.timed], settled.ready) == ([child], [])
    assert await rows.state(child) is State.DELAYED


async def test_a_childs_tolerance_counts_from_its_release(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence)
    child = await rows.task(after=(parent,), tolerance=60)
    await rows.connection.execute("update queue set start_by = now() - interval '1 hour' where id = $1", child)
    await settle(rows.connection, fence, [rows.ended(parent, Outcome.OK)])
    left = await rows.connection.fetchval(
        "select extract(epoch from start_by - now())::float8 from queue where id = $1", child
    )
    assert 50 < left <= 60


async def test_a_child_of_another_pool_is_left_to_that_pools_leader(rows: Rows) -> None:
    pool = await rows.connection.fetchval(
        "insert into pools (name) values ('p' || substr(gen_random_uuid()::text, 1, 8)) returning id"
    )
    fence = await rows.lead()
    parent = await rows.running(fence)
    child = await rows.task(after=(parent,), pool=pool)
    settled = await settle(rows.connection, fence, [rows.ended(parent, Outcome.OK)])
    assert (settled.ready, settled.other_pools) == ([], {pool})
    assert await rows.state(child) is State.BLOCKED
    other = await rows.lead(pool)
    assert [task.id for task in (await release(rows.connection, other, [child])).ready] == [child]


async def test_releasing_twice_changes_nothing(rows: Rows) -> None:
    fence = await rows.lead()
    parent = await rows.running(fence)
    child = await rows.task(after=(parent,))
    await settle(rows.connection, fence, [rows.ended(parent, Outcome.OK)])
    before = await rows.everything()
    assert await release(rows.connection, fence, [child]) == Settled()
    assert await rows.everything() == before


async def _cascade(rows: Rows, fence: Fence, settled: Settled) -> None:
    """As the settling loop does: one level a transaction."""
    for _ in range(20):
        if not settled.more_dependents:
            return
        settled = await release(rows.connection, fence, settled.more_dependents)
    raise AssertionError("the cascade does not end")
