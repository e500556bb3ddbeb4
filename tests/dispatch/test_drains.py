"""Drains: an operator's change in a node's row reaches the core and the agent once, and so does its end."""

from __future__ import annotations

from rota import wire
from rota.decide.messages import Start
from rota.dispatch.agent_connection import enter
from rota.dispatch.cycle import _authorise_and_send
from rota.dispatch.operator_rules import learn_rules
from rota.dispatch.pool import Authorised
from rota.dispatch.session import Session
from rota.dispatch.watch import follow_drains
from rota.model.resources import Resources
from rota.store import nodes
from rota.store.reading import read_nodes
from tests.dispatch.leading import Leading
from tests.store.rows import BOOT


class NoChannel:
    async def send_bytes(self, data: bytes) -> None: ...

    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


def joined(leading: Leading, *, draining: bool = False) -> Session:
    hello = wire.Hello(1, "n", BOOT, 0, Resources(cpu_milli=4000, memory_bytes=10**10), {}, [], "test")
    return enter(leading.pool, NoChannel(), hello, node=leading.rows.node, draining=draining)


def drains_sent(session: Session) -> list[bool]:
    """The drains that the agent was told of, `True` for one that is over."""
    frames = [wire.decode_to_agent(data) for data in session.take()]
    return [frame.is_over for frame in frames if isinstance(frame, wire.Drain)]


def takes_work(leading: Leading) -> bool:
    return leading.pool.core.state.nodes[leading.rows.node].open


async def test_a_drain_in_the_row_reaches_the_agent_and_the_core_once(leading: Leading) -> None:
    session, rows = joined(leading), leading.rows
    await nodes.set_draining(rows.connection, rows.node, draining=True)
    for _ in range(2):
        follow_drains(leading.pool, await nodes.draining_nodes(rows.connection, leading.pool.id))
    assert (drains_sent(session), takes_work(leading)) == ([False], False)
    await nodes.set_draining(rows.connection, rows.node, draining=False)
    for _ in range(2):
        follow_drains(leading.pool, await nodes.draining_nodes(rows.connection, leading.pool.id))
    assert (drains_sent(session), takes_work(leading)) == ([True], True)


async def test_a_node_that_registers_while_drained_gets_the_drain_at_once(leading: Leading) -> None:
    session = joined(leading, draining=True)
    assert (drains_sent(session), takes_work(leading)) == ([False], False)


async def test_an_agents_restart_does_not_end_its_drain(leading: Leading) -> None:
    rows = leading.rows
    name = await rows.connection.fetchval("select name from nodes where id = $1", rows.node)
    await nodes.set_draining(rows.connection, rows.node, draining=True)
    node, draining = await nodes.register_node(
        rows.connection, pool=1, name=name, boot=BOOT + 1, capacity=Resources(), labels={}, capabilities=[], version=""
    )
    assert (node, draining) == (rows.node, True)
    await nodes.set_draining(rows.connection, rows.node, draining=False)


async def test_a_node_that_was_silent_for_a_minute_is_shown_as_lost(leading: Leading) -> None:
    rows = leading.rows

    async def shown_state() -> str:
        return next(
            str(row["state"]) for row in await read_nodes(rows.connection, silent_seconds=15) if row["id"] == rows.node
        )

    assert await shown_state() == "up"
    await rows.connection.execute("update nodes set seen_at = now() - interval '2 minutes' where id = $1", rows.node)
    assert await shown_state() == "lost"
    await nodes.touch_nodes(rows.connection, {rows.node: 0.0})
    assert await shown_state() == "up"


async def test_what_still_runs_at_a_drains_deadline_is_asked_to_stop_once_per_connection(leading: Leading) -> None:
    session, rows, pool = joined(leading), leading.rows, leading.pool
    pool.attempts[7] = Authorised(7, 1, rows.node, BOOT, 30_000, pool.clock())
    pool.attempts[8] = Authorised(8, 1, rows.node + 1, BOOT, 30_000, pool.clock())  # elsewhere
    await nodes.set_draining(rows.connection, rows.node, draining=True, deadline_seconds=600)
    follow_drains(pool, await nodes.draining_nodes(rows.connection, pool.id))
    assert told_to_stop(session) == []
    await nodes.set_draining(rows.connection, rows.node, draining=True, deadline_seconds=0)
    for _ in range(2):
        follow_drains(pool, await nodes.draining_nodes(rows.connection, pool.id))
    assert told_to_stop(session) == [([(7, 1)], "drain")]
    again = joined(leading, draining=True)  # the last frame may have been lost with the connection
    follow_drains(pool, await nodes.draining_nodes(rows.connection, pool.id))
    assert told_to_stop(again) == [([(7, 1)], "drain")]
    await nodes.set_draining(rows.connection, rows.node, draining=False)


def told_to_stop(session: Session) -> list[tuple[list[tuple[int, int]], str]]:
    frames = [wire.decode_to_agent(data) for data in session.take()]
    return [(frame.attempts, frame.reason) for frame in frames if isinstance(frame, wire.Stop)]


async def test_a_start_planned_before_a_drain_is_not_authorised_and_goes_elsewhere(leading: Leading) -> None:
    """The leader does not know of the drain yet; the operator was told that the node takes no new work (R39)."""
    session, rows, pool = joined(leading), leading.rows, leading.pool
    task = await rows.task()
    await pool.loader.poll(rows.connection, 0)
    starts = [one for one in pool.core.plan(0, 10) if isinstance(one, Start)]
    assert [(start.task.id, start.node) for start in starts] == [(task, rows.node)]
    await nodes.set_draining(rows.connection, rows.node, draining=True)
    try:
        await _authorise_and_send(pool, leading.connection, starts)
        assert pool.attempts == {}
        assert (drains_sent(session), takes_work(leading)) == ([False], False)
        assert task in pool.core.state.ready, "queued again at once, for another node"
        assert pool.core.plan(0, 10) == []
    finally:
        await nodes.set_draining(rows.connection, rows.node, draining=False)
    follow_drains(pool, await nodes.draining_nodes(rows.connection, pool.id))
    await learn_rules(pool, rows.connection)
    await _authorise_and_send(pool, leading.connection, [s for s in pool.core.plan(0, 10) if isinstance(s, Start)])
    assert list(pool.attempts) == [task]
