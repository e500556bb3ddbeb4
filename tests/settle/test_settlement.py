"""Settlement against a real PostgreSQL: each end written once, by the current leader, for the current attempt only."""

from __future__ import annotations

import asyncio

import pytest

from rota.model.attempt import LogChunk, Outcome
from rota.model.clock import to_us
from rota.model.task import Lane, State
from rota.settle.settlement import NotLeader, Reported, Settled, release, settle
from rota.store.cancel_and_rerun import cancel_tasks
from rota.wire import Failure, Result
from tests.store.rows import BOOT, Rows, until_blocked


async def test_a_success_ends_the_task_and_keeps_what_it_gave(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    report = rows.ended(task, Outcome.OK, result=b'{"answer":42}', exit_code=0, cpu_ms=7, peak_memory_bytes=9)
    settled = await settle(rows.connection, fence, [report])
    assert settled == Settled(ended=[(task, State.DONE)])
    row = await rows.connection.fetchrow("select * from attempts where task = $1", task)
    assert (row["number"], row["state"], row["outcome"], row["node"], row["run_us"]) == (1, 10, 1, rows.node, 5000)
    assert (row["result"], row["exit_code"], row["cpu_ms"], row["peak_memory_bytes"]) == ('{"answer":42}', 0, 7, 9)
    assert await rows.state(task) is State.DONE


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR, Outcome.LOST, Outcome.RECALLED])
async def test_a_repeated_result_changes_nothing(rows: Rows, outcome: Outcome) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=3)
    await settle(rows.connection, fence, [rows.ended(task, outcome)])
    before = await rows.everything()
    again = await settle(rows.connection, fence, [rows.ended(task, outcome)])
    assert again == Settled()
    assert await rows.everything() == before


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR])
async def test_a_result_of_an_older_attempt_or_another_boot_changes_nothing(rows: Rows, outcome: Outcome) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=3)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.LOST)])
    await rows.start(fence, task)
    before = await rows.everything()
    older = await settle(rows.connection, fence, [rows.ended(task, outcome, attempt=1)])
    stranger = await settle(rows.connection, fence, [rows.ended(task, outcome, boot=BOOT + 1)])
    assert (older, stranger) == (Settled(), Settled())
    assert await rows.everything() == before


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR])
async def test_the_fence_refuses_a_leader_whose_term_is_over_and_nothing_is_written(
    rows: Rows, outcome: Outcome
) -> None:
    old = await rows.lead()
    task = await rows.running(old)
    child = await rows.task(after=(task,))
    new = await rows.lead()
    before = await rows.everything()
    log = [LogChunk(task, 1, 0, 1, b"late")]
    with pytest.raises(NotLeader):
        await settle(rows.connection, old, [rows.ended(task, outcome, log=log)])
    with pytest.raises(NotLeader):
        await release(rows.connection, old, [child])
    assert await rows.start(old, await rows.task()) == []
    assert {table: kept for table, kept in (await rows.everything()).items() if table not in ("queue", "tasks")} == {
        table: kept for table, kept in before.items() if table not in ("queue", "tasks")
    }
    settled = await settle(rows.connection, new, [rows.ended(task, outcome)])
    assert settled.ended[0] == (task, State.DONE if outcome is Outcome.OK else State.FAILED)


async def test_a_failure_with_attempts_left_comes_due_again_and_keeps_its_attempt(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=2, backoff_ms=60_000)
    settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR, exit_code=3)])
    assert ([t.id for t in settled.timed], settled.ended, settled.ready) == ([task], [], [])
    row = await rows.queued(task)
    assert (row["state"], row["used"], row["attempt"], row["node"], row["boot"]) == (State.DELAYED, 1, 1, None, None)
    kept = await rows.connection.fetchrow(
        "select state, outcome, exit_code, failure from attempts where task = $1", task
    )
    assert tuple(kept)[:3] == (0, Outcome.ERROR, 3)
    assert await rows.start(fence, task) == [], "it is not due yet"
    await rows.make_due(task)
    (started,) = await rows.start(fence, task)
    assert started.attempt == 2


async def test_the_last_failure_leaves_one_dead_letter_with_its_history(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=2)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    await rows.make_due(task)
    await rows.start(fence, task)
    settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.TIMEOUT)])
    assert settled.ended == [(task, State.FAILED)]
    letters = await rows.connection.fetch("select task, reason from dead_letters where task = $1", task)
    assert [tuple(letter) for letter in letters] == [(task, "attempt 2 of 2: ValueError: no")]
    numbers = await rows.connection.fetch("select number, state from attempts where task = $1 order by 1", task)
    assert [tuple(row) for row in numbers] == [(1, 0), (2, State.FAILED)]


async def test_a_task_that_loses_three_workers_is_a_dead_letter(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=100)
    for _ in range(2):
        settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.LOST)])
        assert [t.id for t in settled.ready] == [task]
        await rows.start(fence, task)
    settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.LOST)])
    assert settled.ended == [(task, State.FAILED)]
    assert await rows.reason(task) == "poison: its worker was lost 3 times while running it"


async def test_one_batch_settles_every_kind_of_end(rows: Rows) -> None:
    fence = await rows.lead()
    done, failed, again, recalled = [await rows.running(fence, attempts=n) for n in (1, 1, 2, 1)]
    settled = await settle(
        rows.connection,
        fence,
        [
            rows.ended(recalled, Outcome.RECALLED),
            rows.ended(again, Outcome.ERROR),
            rows.ended(failed, Outcome.ERROR),
            rows.ended(done, Outcome.OK),
        ],
    )
    assert sorted(settled.ended) == [(done, State.DONE), (failed, State.FAILED)]
    assert ([t.id for t in settled.ready], [t.id for t in settled.timed]) == ([recalled], [again])


async def test_a_retry_that_will_be_late_waits_in_the_urgent_lane(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=2, tolerance=0.001, backoff_ms=60_000, lane=Lane.NORMAL)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    assert (await rows.queued(task))["lane"] == Lane.URGENT


async def test_a_late_retry_of_a_lane_that_promotes_nobody_or_without_a_tolerance_stays_in_its_lane(rows: Rows) -> None:
    fence = await rows.lead()
    quiet = await rows.running(fence, attempts=2, tolerance=0.001, backoff_ms=60_000, lane=Lane.PERIODIC)
    derived = await rows.running(fence, attempts=2, backoff_ms=60_000, lane=Lane.NORMAL)
    await rows.connection.execute("update queue set start_by = now() where id = $1", derived)
    await rows.connection.execute("update lanes set promotes = rank <> $1", Lane.PERIODIC)
    try:
        await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR) for task in (quiet, derived)])
    finally:
        await rows.connection.execute("update lanes set promotes = true")
    assert (await rows.queued(quiet))["lane"] == Lane.PERIODIC
    assert (await rows.queued(derived))["lane"] == Lane.NORMAL


async def test_a_task_that_was_taken_back_becomes_urgent_when_it_would_have(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, tolerance=600)
    settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.RECALLED)])
    assert [(one.id, one.lane) for one in settled.ready] == [(task, Lane.NORMAL)]
    row = await rows.queued(task)
    assert (row["start_by"] - row["wake_at"]).total_seconds() == 60


async def test_a_cancel_of_a_running_task_is_seen_when_it_ends(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=5)
    cancelled = await cancel_tasks(rows.connection, [task], rows.tenant, "not wanted")
    assert cancelled.stopping == [(task, 1, 1)]
    settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    assert settled.ended == [(task, State.CANCELLED)]


async def test_success_wins_over_a_cancel_that_came_too_late(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    await cancel_tasks(rows.connection, [task], rows.tenant, "not wanted")
    settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.OK)])
    assert settled.ended == [(task, State.DONE)]


@pytest.mark.parametrize(
    ("outcome", "state"), [(Outcome.OK, State.DONE), (Outcome.ERROR, State.CANCELLED), (Outcome.LOST, State.CANCELLED)]
)
async def test_a_cancel_that_commits_while_the_settlement_waits_for_the_row_loses_no_result(
    rows: Rows, outcome: Outcome, state: State
) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=2)
    owner = await rows.another_connection()
    editing = owner.transaction()
    await editing.start()
    await owner.execute("update queue set cancel_requested = true, version = version + 1 where id = $1", task)
    settling = asyncio.create_task(settle(rows.connection, fence, [rows.ended(task, outcome)]))
    await until_blocked(rows.database.url, rows.connection)
    await editing.commit()
    settled = await settling
    assert settled.ended == [(task, state)]
    assert await rows.state(task) is state
    await owner.close()


async def test_a_result_with_nul_in_its_words_is_stored_without_it(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    failure = Failure("ValueError", "a\0b", "trace\0back")
    settled = await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR, failure=failure)])
    assert settled.ended == [(task, State.FAILED)]
    assert "\0" not in str(await rows.reason(task))


# ---- the history of attempts -----------------------------------------------------------------------------------------


async def _began(rows: Rows, task: int, seconds: float) -> None:
    """Its attempt was authorised this long ago."""
    await rows.connection.execute(
        "update queue set started_at = now() - $2 * interval '1 second' where id = $1", task, seconds
    )


def _lost(rows: Rows, task: int, *, now_us: int, heard_us: int) -> Reported:
    """As the leader gives it up: it knows no run time."""
    result = Result(task, rows.attempts[task], Outcome.LOST, 0, failure=Failure("lost", "its node went silent"))
    return Reported(result, BOOT, now_us, heard_us)


async def _history(rows: Rows, task: int) -> list[tuple[int, Outcome, float, float, int | None]]:
    """Of each attempt: number, outcome, how many seconds ago it started, how many it ran, its node."""
    found = await rows.connection.fetch(
        """select number, outcome, extract(epoch from now() - started_at)::float8 as ago, run_us / 1e6::float8 as ran, node
        from attempts where task = $1 order by number""",
        task,
    )
    return [
        (row["number"], Outcome(row["outcome"]), round(row["ago"]), round(row["ran"], 1), row["node"]) for row in found
    ]


async def test_a_lost_attempt_keeps_its_start_its_run_time_and_its_node(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=2)
    await _began(rows, task, 30)
    now_us = to_us(await rows.connection.fetchval("select now()"))
    lost = _lost(rows, task, now_us=now_us, heard_us=now_us - 22_000_000)
    settled = await settle(rows.connection, fence, [lost])
    assert [ready.id for ready in settled.ready] == [task]
    assert await _history(rows, task) == [(1, Outcome.LOST, 30, 8.0, rows.node)]
    await rows.start(fence, task)
    assert (await settle(rows.connection, fence, [rows.ended(task, Outcome.OK)])).ended == [(task, State.DONE)]
    assert await _history(rows, task) == [(1, Outcome.LOST, 30, 8.0, rows.node), (2, Outcome.OK, 0, 0.0, rows.node)]


async def test_a_new_leader_knows_from_the_nodes_row_how_long_a_lost_attempt_ran(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=2)
    await _began(rows, task, 30)
    await rows.connection.execute("update nodes set seen_at = now() - interval '10 s' where id = $1", rows.node)
    now_us = to_us(await rows.connection.fetchval("select now()"))
    await settle(rows.connection, fence, [_lost(rows, task, now_us=now_us, heard_us=0)])
    assert await _history(rows, task) == [(1, Outcome.LOST, 30, 20.0, rows.node)]


async def test_a_node_that_comes_back_tells_how_long_its_lost_attempt_ran_and_nobody_else_does(rows: Rows) -> None:
    fence = await rows.lead()
    task = await rows.running(fence, attempts=2)
    await _began(rows, task, 30)
    now_us = to_us(await rows.connection.fetchval("select now()"))
    await settle(rows.connection, fence, [_lost(rows, task, now_us=now_us, heard_us=now_us - 29_000_000)])
    await rows.start(fence, task)
    late = Result(task, 1, Outcome.DISRUPTED, 19_000_000, exit_code=137, cpu_ms=5, failure=Failure("fenced", "cut off"))
    assert await settle(rows.connection, fence, [Reported(late, BOOT + 1)]) == Settled()
    assert await _history(rows, task) == [(1, Outcome.LOST, 30, 1.0, rows.node)]
    assert await settle(rows.connection, fence, [Reported(late, BOOT)]) == Settled()
    assert await _history(rows, task) == [(1, Outcome.LOST, 30, 19.0, rows.node)]
    assert await rows.state(task) is State.RUNNING
    kept = await rows.connection.fetchrow("select exit_code, cpu_ms from attempts where task = $1", task)
    assert tuple(kept) == (137, 5)


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR])
async def test_the_time_in_which_files_were_stored_does_not_move_the_start(rows: Rows, outcome: Outcome) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    now_us = to_us(await rows.connection.fetchval("select now()"))
    result = Result(task, 1, outcome, 5_000_000, saving_us=20_000_000, failure=Failure("x", "y"))
    await settle(rows.connection, fence, [Reported(result, BOOT, now_us)])
    assert await _history(rows, task) == [(1, outcome, 25, 5.0, rows.node)]


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR])
async def test_the_time_in_which_an_attempt_was_frozen_is_kept_and_does_not_move_its_start(
    rows: Rows, outcome: Outcome
) -> None:
    fence = await rows.lead()
    frozen, other = await rows.running(fence), await rows.running(fence)
    now_us = to_us(await rows.connection.fetchval("select now()"))
    results = [
        Result(frozen, 1, outcome, 5_000_000, frozen_us=60_000_000, failure=Failure("x", "y")),
        Result(other, 1, outcome, 5_000_000, failure=Failure("x", "y")),
    ]
    await settle(rows.connection, fence, [Reported(result, BOOT, now_us) for result in results])
    assert await _history(rows, frozen) == [(1, outcome, 65, 5.0, rows.node)]
    assert await _history(rows, other) == [(1, outcome, 5, 5.0, rows.node)]
    kept = await rows.connection.fetch(
        "select frozen_us from attempts where task = any($1) order by task", [frozen, other]
    )
    assert [row["frozen_us"] for row in kept] == [60_000_000, None]


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR, Outcome.LOST])
async def test_an_attempt_keeps_the_lane_it_ran_in(rows: Rows, outcome: Outcome) -> None:
    fence = await rows.lead()
    promoted, plain = await rows.task(tolerance=3600), await rows.task()
    await rows.make_due(promoted)
    await rows.start(fence, promoted, plain)
    await settle(rows.connection, fence, [rows.ended(task, outcome) for task in (promoted, plain)])
    found = await rows.connection.fetch("select task, lane from attempts where task = any($1)", [promoted, plain])
    assert dict(found) == {promoted: Lane.URGENT, plain: Lane.NORMAL}
