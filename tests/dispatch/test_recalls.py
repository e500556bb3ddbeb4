"""Recalls after a pause: what nodes have not begun comes back, and the operator's answer waits for their word."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from rota import wire
from rota.decide.messages import PolicyKnown, Start
from rota.dispatch import recalls
from rota.dispatch.agent_connection import listen
from rota.dispatch.cycle import _authorise_and_send
from rota.dispatch.news import News
from rota.dispatch.operator_rules import learn_rules
from rota.dispatch.recalls import recall_paused, request_recall, send_recalls, unconfirmed
from rota.dispatch.session import Session
from rota.model.attempt import Outcome
from rota.model.task import Kind
from rota.store import queue, tenants
from rota.store.queue import Wanted
from tests.dispatch.leading import Leading
from tests.dispatch.test_drains import joined
from tests.harness.lanes import RANKS
from tests.store.rows import BOOT


def recalls_in(session: Session) -> list[wire.Recall]:
    frames = [wire.decode_to_agent(data) for data in session.take()]
    return [frame for frame in frames if isinstance(frame, wire.Recall)]


async def test_a_pause_is_answered_when_the_node_has_confirmed_it(leading: Leading) -> None:
    session, pool = joined(leading), leading.pool
    begun, waiting = await leading.running(), await leading.running()
    asked = asyncio.create_task(recall_paused(pool, tenant=leading.rows.tenant))
    await asyncio.sleep(0)
    assert pool.wakes.cycle.is_set(), "the cycle sends it"
    send_recalls(pool)
    (recall,) = recalls_in(session)
    assert sorted(recall.attempts) == [(begun, 1), (waiting, 1)]
    assert not asked.done()
    listen(pool, session, wire.Recalled([(waiting, 1)], recall.number))
    assert await asked == 0
    assert [(one.result.task, one.result.outcome) for one in pool.unsettled.reports] == [(waiting, Outcome.RECALLED)]


@pytest.mark.parametrize("of", ["tenant", "node", "pool"])
async def test_a_recall_is_of_what_was_paused_only(leading: Leading, of: str) -> None:
    session, pool, rows = joined(leading), leading.pool, leading.rows
    task = await leading.running()
    theirs = {"tenant": {"tenant": rows.tenant + 1}, "node": {"node": rows.node + 1}, "pool": {}}[of]
    own = {"tenant": {"tenant": rows.tenant}, "node": {"node": rows.node}, "pool": {}}[of]
    if theirs:
        request_recall(pool, **theirs)
        send_recalls(pool)
        assert recalls_in(session) == []
    request_recall(pool, **own)
    send_recalls(pool)
    assert [frame.attempts for frame in recalls_in(session)] == [[(task, 1)]]


async def test_attempts_of_a_node_that_is_away_or_silent_are_counted(
    leading: Leading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalls, "CONFIRM_SECONDS", 0.05)
    pool = leading.pool
    await leading.running()
    request = request_recall(pool)
    assert unconfirmed(pool, request) == 1, "the cycle may be about to send it to its node"
    send_recalls(pool)
    assert unconfirmed(pool, request) == 1, "its node is not connected"
    session = joined(leading)
    asked = asyncio.create_task(recall_paused(pool))
    await asyncio.sleep(0)
    send_recalls(pool)
    assert await asked == 1, "its node did not answer"
    listen(pool, session, wire.Recalled([], recalls_in(session)[-1].number))
    assert unconfirmed(pool, request) == 1, "an older connection was asked"


async def test_a_leader_whose_lease_is_over_confirms_nothing(leading: Leading) -> None:
    leading.pool.lease.end()
    assert await recall_paused(leading.pool) is None


async def test_a_recall_never_overtakes_the_start_that_it_is_about(leading: Leading) -> None:
    session, pool = joined(leading), leading.pool
    session.take()
    task = await leading.running()
    run = wire.Run(task, 1, leading.rows.tenant, Kind.COMMAND, "work", leading.rows.shape, 60_000, 20_000, "k", b"{}")
    session.start([run], {leading.rows.shape: session.capacity})
    request_recall(pool)
    send_recalls(pool)
    later = wire.Run(task + 1, 1, 1, Kind.COMMAND, "work", leading.rows.shape, 60_000, 20_000, "k", b"{}")
    session.start([later], {leading.rows.shape: session.capacity})
    frames = [wire.decode_to_agent(data) for data in session.take()]
    assert [type(frame) for frame in frames] == [wire.Start, wire.Recall, wire.Start]
    assert [frame.runs[0].task for frame in frames if isinstance(frame, wire.Start)] == [task, task + 1]


async def test_a_node_that_comes_back_to_a_paused_pool_gives_back_what_it_has_not_begun(leading: Leading) -> None:
    pool = leading.pool
    task = await leading.running()
    session = joined(leading)
    session.take()
    listen(pool, session, wire.Inventory([(task, 1)], []))
    assert recalls_in(session) == []
    pool.core.apply(PolicyKnown(replace(pool.core.state.policy, paused=True)), 0)
    listen(pool, session, wire.Inventory([(task, 1)], []))
    assert [frame.attempts for frame in recalls_in(session)] == [[(task, 1)]]


async def test_a_task_that_arrives_after_the_pause_of_its_idle_tenant_queues_until_it_is_resumed(
    leading: Leading,
) -> None:
    """The tenant had no task when it was paused; its leader knows it from before (R50)."""
    joined(leading)
    rows, pool = leading.rows, leading.pool
    await _run_one(leading)
    name = await rows.connection.fetchval("select name from tenants where id = $1", rows.tenant)
    await tenants.pause_tenant(rows.connection, name, True)
    task = await _arrive(leading)
    starts = [one for one in pool.core.plan(0, 10) if isinstance(one, Start)]
    assert [start.task.id for start in starts] == [task], "the leader has not heard of the pause"
    await _authorise_and_send(pool, leading.connection, starts)
    assert task not in pool.attempts
    assert task in pool.core.state.ready, "it waits in memory"
    assert pool.core.plan(0, 10) == [], "the refusal told the leader"
    await tenants.pause_tenant(rows.connection, name, False)
    await learn_rules(pool, rows.connection)
    await _authorise_and_send(pool, leading.connection, [s for s in pool.core.plan(0, 10) if isinstance(s, Start)])
    assert task in pool.attempts


async def test_a_limit_of_an_idle_tenant_is_known_before_its_next_task(leading: Leading) -> None:
    rows, pool = leading.rows, leading.pool
    joined(leading)
    await _run_one(leading)
    plan = await rows.connection.fetchval("select plan from tenants where id = $1", rows.tenant)
    await rows.connection.execute("update tenants set plan = 'free' where id = $1", rows.tenant)
    try:
        await learn_rules(pool, rows.connection)
        assert pool.core.state.tenants[rows.tenant].cpu_milli_limit == 2000
    finally:
        await rows.connection.execute("update tenants set plan = $2 where id = $1", rows.tenant, plan)


async def _run_one(leading: Leading) -> None:
    """The leader has started and ended a task of the tenant, which is idle since."""
    rows, pool = leading.rows, leading.pool
    task = await rows.task()
    await pool.loader.poll(rows.connection, 0)
    await _authorise_and_send(pool, leading.connection, [s for s in pool.core.plan(0, 10) if isinstance(s, Start)])
    pool.report(wire.Result(task, 1, Outcome.OK, 5), BOOT)
    await leading.settle_everything()


async def _arrive(leading: Leading) -> int:
    """A task that this server node has just admitted, as its leader hears of it."""
    rows = leading.rows
    task = await rows.task()
    ready = await queue.load_ready(rows.connection, 1, [Wanted(rows.tenant, (-1, 0, 0, 0, 0), 10)], RANKS)
    News(leading.pool).arrived([one for one in ready if one.id == task], {})
    return task
