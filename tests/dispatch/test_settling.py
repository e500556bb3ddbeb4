"""The settling loop: nothing an agent reports can stop it, and only an attempt's own agent can end it."""

from __future__ import annotations

from typing import cast

import pytest

from rota.dispatch import settling
from rota.dispatch.agent_connection import listen
from rota.dispatch.session import Channel, Session
from rota.model.attempt import LogChunk, Outcome
from rota.model.resources import Resources
from rota.model.task import State
from rota.settle.settlement import NotLeader, Reported
from rota.wire import Hello, Result, Results
from tests.dispatch.leading import Leading
from tests.store.rows import BOOT


async def test_a_result_frees_its_resources_at_once_and_is_settled_in_the_next_batch(leading: Leading) -> None:
    task = await leading.running()
    assert leading.free_cpu_milli == 3000
    leading.pool.report(Result(task, 1, Outcome.OK, 5000), BOOT)
    assert leading.free_cpu_milli == 4000
    await leading.settle_everything()
    assert (leading.ended, leading.pool.attempts) == ([(task, State.DONE)], {})


async def test_a_result_that_is_sent_twice_is_settled_once(leading: Leading) -> None:
    task = await leading.running()
    for _ in range(3):
        leading.pool.report(Result(task, 1, Outcome.OK, 5000), BOOT)
    await leading.settle_everything()
    leading.pool.report(Result(task, 1, Outcome.OK, 5000), BOOT)
    await leading.settle_everything()
    assert leading.ended == [(task, State.DONE)]
    assert leading.pool.counters.superseded == 1


async def test_a_result_of_another_boot_neither_ends_the_attempt_nor_makes_the_leader_forget_it(
    leading: Leading,
) -> None:
    task = await leading.running()
    leading.pool.report(Result(task, 1, Outcome.ERROR, 5000), BOOT + 1)
    await leading.settle_everything()
    assert (leading.ended, list(leading.pool.attempts), leading.free_cpu_milli) == ([], [task], 3000)
    leading.pool.report(Result(task, 1, Outcome.OK, 5000), BOOT)
    await leading.settle_everything()
    assert (leading.ended, leading.free_cpu_milli) == ([(task, State.DONE)], 4000)


@pytest.mark.parametrize(
    "bad",
    [
        {"run_us": 2**63},
        {"exit_code": 2**40},
        {"cpu_ms": -(2**70)},
        {"result": b"not json"},
        {"result": b"\xff\xfe"},
        {"log": [LogChunk(2**62, 1, 0, 1, b"x")]},
        {"log_bytes": 2**63},
    ],
    ids=lambda bad: next(iter(bad)),
)
async def test_one_result_the_database_refuses_fails_alone(leading: Leading, bad: dict[str, object]) -> None:
    good, wrong, also_good = [await leading.running(attempts=3) for _ in range(3)]
    for task in (good, also_good):
        leading.pool.report(Result(task, 1, Outcome.OK, 5000), BOOT)
    fields = {"task": wrong, "attempt": 1, "outcome": Outcome.OK, "run_us": 1, **bad}
    leading.pool.report(Result(**fields), BOOT)  # type: ignore[arg-type]
    await leading.settle_everything()
    assert sorted(leading.ended) == [(good, State.DONE), (wrong, State.FAILED), (also_good, State.DONE)]
    assert "the result can't be stored" in str(await leading.rows.reason(wrong))


@pytest.mark.parametrize("attempt", [0, 2, 40_000, -1])
async def test_a_result_for_an_attempt_nobody_authorised_does_not_keep_the_loop_busy(
    leading: Leading, attempt: int
) -> None:
    task = await leading.running()
    leading.pool.report(Result(task, attempt, Outcome.OK, 5000), BOOT)
    leading.pool.report(Result(2**70, 1, Outcome.OK, 5000), BOOT)
    await leading.settle_everything()
    assert (leading.ended, list(leading.pool.attempts)) == ([], [task])


async def test_a_leader_whose_term_is_over_stops_settling_and_keeps_the_report(leading: Leading) -> None:
    task = await leading.running()
    leading.pool.report(Result(task, 1, Outcome.OK, 5000), BOOT)
    await leading.rows.lead()
    with pytest.raises(NotLeader):
        await leading.settle_everything()
    assert [report.result.task for report in leading.pool.unsettled.reports] == [task]
    assert await leading.rows.state(task) is State.RUNNING


async def test_dependents_of_a_cascade_follow_one_after_the_other(leading: Leading) -> None:
    parent = await leading.running()
    child = await leading.rows.task(after=(parent,))
    grandchild = await leading.rows.task(after=(child,))
    leading.pool.report(Result(parent, 1, Outcome.ERROR, 5000), BOOT)
    await leading.settle_everything()
    assert leading.ended == [(parent, State.FAILED), (child, State.SKIPPED), (grandchild, State.SKIPPED)]


async def test_a_released_dependent_is_in_memory_at_once(leading: Leading) -> None:
    parent = await leading.running()
    child = await leading.rows.task(after=(parent,))
    await leading.pool.loader.poll(leading.rows.connection, 0)
    leading.pool.report(Result(parent, 1, Outcome.OK, 5000), BOOT)
    await leading.settle_everything()
    assert child in leading.pool.core.state.ready


async def test_a_batch_holds_one_report_a_task_and_the_rest_keeps_its_order(leading: Leading) -> None:
    pool = leading.pool
    for task, attempt in ((1, 1), (2, 1), (1, 2), (3, 1)):
        pool.unsettled.reports.append(Reported(Result(task, attempt, Outcome.OK, 0), BOOT))
    taken = settling._take(pool.unsettled)
    assert [(r.result.task, r.result.attempt) for r in taken] == [(1, 1), (2, 1), (3, 1)]
    assert [(r.result.task, r.result.attempt) for r in pool.unsettled.reports] == [(1, 2)]


async def test_a_result_that_waited_for_a_connection_keeps_the_time_of_its_end(leading: Leading) -> None:
    task = await leading.running()
    session = await _session(leading)
    result = Result(task, 1, Outcome.OK, 5_000_000, reported_at=100.0)
    listen(leading.pool, session, Results([result], sent=120.0))
    (report,) = leading.pool.unsettled.reports
    assert 19 < (leading.pool.now_us() - (report.at_us or 0)) / 1e6 < 21


async def test_a_result_of_an_agent_that_tells_no_times_ended_when_it_came(leading: Leading) -> None:
    task = await leading.running()
    listen(leading.pool, await _session(leading), Results([Result(task, 1, Outcome.OK, 5_000_000)], sent=120.0))
    (report,) = leading.pool.unsettled.reports
    assert (leading.pool.now_us() - (report.at_us or 0)) / 1e6 < 1


async def test_an_attempt_that_is_given_up_ran_until_its_node_was_last_heard_of(leading: Leading) -> None:
    task = await leading.running()
    leading.pool.heard_at[leading.rows.node] = leading.pool.clock() - 22
    leading.pool.give_up(leading.pool.attempts[task], Outcome.LOST, "its node went silent")
    (report,) = leading.pool.unsettled.reports
    assert 21 < (leading.pool.now_us() - (report.heard_us or 0)) / 1e6 < 23


async def _session(leading: Leading) -> Session:
    hello = Hello(1, "node", BOOT, 0, Resources(cpu_milli=1, memory_bytes=1), {}, [], "test")
    return Session(cast(Channel, None), hello, node=leading.rows.node, epoch=1)
