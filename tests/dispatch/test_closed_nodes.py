"""Agents report with their heartbeats whether they take work: the core learns it, rows show it, drains come first."""

from __future__ import annotations

import msgspec

from rota import wire
from rota.decide.messages import Start
from rota.dispatch.agent_connection import listen
from rota.dispatch.closed_nodes import note_goodbye, save_reports
from rota.dispatch.cycle import _authorise_and_send
from rota.dispatch.pool import Authorised
from rota.dispatch.session import Session
from rota.dispatch.watch import Watch, follow_drains
from rota.model.node import Closed
from rota.model.task import State
from rota.store import nodes
from rota.store.reading import read_nodes
from tests.dispatch.leading import Leading
from tests.dispatch.test_drains import joined


class OldHeartbeat(msgspec.Struct, tag="Heartbeat", frozen=True, array_like=True):
    """As version N-1 has it."""

    sent: float
    held: int
    is_full: bool = False


def beat(leading: Leading, session: Session, why: Closed | None) -> None:
    frame = wire.Heartbeat(1.0, 0, is_closed=why is not None, is_leaving=why is Closed.LEAVING)
    listen(leading.pool, session, wire.decode_to_server(wire.encode(frame)))


def known(leading: Leading) -> Closed | None:
    node = leading.pool.core.state.nodes[leading.rows.node]
    assert node.open == (node.closed_for is None)
    return node.closed_for


async def shown(leading: Leading) -> str:
    rows = leading.rows
    return next(
        str(row["state"]) for row in await read_nodes(rows.connection, silent_seconds=15) if row["id"] == rows.node
    )


async def test_a_node_reports_a_full_disk_and_is_shown_as_full_until_it_has_space(leading: Leading) -> None:
    session, rows, pool = joined(leading), leading.rows, leading.pool
    beat(leading, session, Closed.FULL)
    assert (known(leading), pool.wakes.poll_hinted) == (Closed.FULL, True)
    await Watch(pool).read(rows.connection)
    assert (await shown(leading), pool.polled.unsaved_reports) == ("full", {})
    beat(leading, session, None)
    assert known(leading) is None
    await Watch(pool).read(rows.connection)
    assert await shown(leading) == "up"


async def test_a_leaving_node_is_not_shown_as_full(leading: Leading) -> None:
    session = joined(leading)
    beat(leading, session, Closed.LEAVING)
    assert known(leading) is Closed.LEAVING
    await save_reports(leading.pool, leading.rows.connection)
    assert await shown(leading) == "leaving"


async def test_a_drain_comes_before_a_full_disk_and_leaves_it_as_it_was(leading: Leading) -> None:
    session, rows, pool = joined(leading), leading.rows, leading.pool
    beat(leading, session, Closed.FULL)
    await nodes.set_draining(rows.connection, rows.node, draining=True)
    await Watch(pool).read(rows.connection)
    follow_drains(pool, await nodes.draining_nodes(rows.connection, pool.id))
    assert (known(leading), await shown(leading)) == (Closed.DRAINING, "draining")
    await nodes.set_draining(rows.connection, rows.node, draining=False)
    follow_drains(pool, await nodes.draining_nodes(rows.connection, pool.id))
    assert (known(leading), await shown(leading)) == (Closed.FULL, "full")


async def test_a_report_of_an_earlier_boot_does_not_count(leading: Leading) -> None:
    session, rows = joined(leading), leading.rows
    name = await rows.connection.fetchval("select name from nodes where id = $1", rows.node)
    beat(leading, session, Closed.FULL)
    await nodes.register_node(
        rows.connection,
        pool=1,
        name=name,
        boot=session.boot + 1,
        capacity=session.capacity,
        labels={},
        capabilities=[],
        version="",
    )
    await save_reports(leading.pool, rows.connection)
    assert await shown(leading) == "up"


async def test_agents_and_leaders_of_the_version_before_understand_each_other(leading: Leading) -> None:
    session = joined(leading)
    from_old = msgspec.msgpack.encode(OldHeartbeat(1.0, 0, is_full=True))
    listen(leading.pool, session, wire.decode_to_server(from_old))
    assert known(leading) is Closed.FULL
    to_old = wire.encode(wire.Heartbeat(1.0, 3, is_closed=True, is_leaving=True))
    assert msgspec.msgpack.decode(to_old, type=OldHeartbeat) == OldHeartbeat(1.0, 3, is_full=True)


async def _gone(leading: Leading, session: Session) -> str:
    """Its connection ends: how the node is shown then."""
    leading.pool.leave(session)
    note_goodbye(leading.pool, session)
    await Watch(leading.pool).read(leading.rows.connection)
    return await shown(leading)


async def test_a_node_that_ended_in_order_has_left_until_it_is_seen_again(leading: Leading) -> None:
    session, rows = joined(leading), leading.rows
    beat(leading, session, Closed.LEAVING)
    assert await _gone(leading, session) == "left"
    await nodes.touch_nodes(rows.connection, {rows.node: 0.0})  # by whichever version leads
    assert await shown(leading) == "leaving"


async def test_a_node_that_is_away_without_a_goodbye_has_not_left(leading: Leading) -> None:
    session = joined(leading)
    beat(leading, session, None)
    assert await _gone(leading, session) == "up"


async def test_a_node_that_goes_with_a_running_attempt_has_not_left(leading: Leading) -> None:
    """It works once and dies with its one task: that is given up after its grace, as always."""
    session, pool = joined(leading), leading.pool
    pool.attempts[7] = Authorised(7, 1, leading.rows.node, session.boot, 30_000, pool.clock())
    beat(leading, session, Closed.LEAVING)
    assert await _gone(leading, session) == "leaving"


async def test_a_node_that_is_connected_again_has_not_left(leading: Leading) -> None:
    session = joined(leading)
    beat(leading, session, Closed.LEAVING)
    again = joined(leading)
    assert await _gone(leading, session) == "leaving"
    assert leading.pool.sessions[leading.rows.node] is again


async def test_a_drained_node_that_has_left_is_shown_as_both(leading: Leading) -> None:
    session, rows = joined(leading), leading.rows
    await nodes.set_draining(rows.connection, rows.node, draining=True)
    beat(leading, session, Closed.LEAVING)
    assert await _gone(leading, session) == "left"
    [row] = [row for row in await read_nodes(rows.connection, silent_seconds=15) if row["id"] == rows.node]
    assert row["draining"]
    await nodes.set_draining(rows.connection, rows.node, draining=False)


async def test_an_attempt_authorised_while_its_node_leaves_is_not_sent_and_is_free_at_once(
    leading: Leading,
) -> None:
    session, rows, pool = joined(leading), leading.rows, leading.pool
    task = await rows.task()
    await pool.loader.poll(rows.connection, 0)
    starts = [one for one in pool.core.plan(0, 10) if isinstance(one, Start)]
    beat(leading, session, Closed.LEAVING)
    session.take()
    await _authorise_and_send(pool, leading.connection, starts)
    assert session.take() == []
    await leading.settle_everything()
    assert (pool.attempts, await rows.state(task)) == ({}, State.READY)
