"""Caps changed while a task runs: the core and the agent learn it, the agent once for each connection."""

from __future__ import annotations

from rota import wire
from rota.dispatch.agent_connection import enter
from rota.dispatch.session import Session
from rota.dispatch.watch import CAPS, follow_caps
from rota.model.resources import Resources
from rota.store.caps import CapTooLong, change_cap
from tests.dispatch.leading import Leading
from tests.dispatch.test_drains import NoChannel
from tests.store.rows import BOOT

LONGEST_MS = 86_400_000


def joined(leading: Leading, *capabilities: str) -> Session:
    capacity = Resources(cpu_milli=4000, memory_bytes=10**10)
    hello = wire.Hello(1, "n", BOOT, 0, capacity, {}, list(capabilities), "test")
    return enter(leading.pool, NoChannel(), hello, node=leading.rows.node, draining=False)


def caps_sent(session: Session) -> list[tuple[int, int, int]]:
    frames = [wire.decode_to_agent(data) for data in session.take()]
    return [cap for frame in frames if isinstance(frame, wire.Caps) for cap in frame.caps]


async def test_a_changed_cap_is_sent_once_on_every_connection_of_its_node(leading: Leading) -> None:
    rows, pool = leading.rows, leading.pool
    task = await leading.running()
    first = joined(leading, CAPS)
    changed = await change_cap(
        rows.connection, task, rows.tenant, by_ms=5000, to_ms=None, longest_ms=LONGEST_MS, user="ann"
    )
    assert changed is not None
    for _ in range(2):
        await follow_caps(pool, rows.connection)
    assert caps_sent(first) == [(task, 1, changed.cap_ms)]
    assert pool.core.state.running[task].cap_us == changed.cap_ms * 1000
    second = joined(leading, CAPS)  # the agent lost its connection, or we are the next leader
    await follow_caps(pool, rows.connection)
    assert caps_sent(second) == [(task, 1, changed.cap_ms)]


async def test_an_agent_built_before_caps_could_change_is_sent_nothing(leading: Leading) -> None:
    rows = leading.rows
    task = await leading.running()
    session = joined(leading)
    await change_cap(rows.connection, task, rows.tenant, by_ms=5000, to_ms=None, longest_ms=LONGEST_MS, user="ann")
    await follow_caps(leading.pool, rows.connection)
    assert caps_sent(session) == []


async def test_a_waiting_task_with_a_new_cap_starts_only_as_its_new_version(leading: Leading) -> None:
    rows = leading.rows
    task = await rows.task()
    before = await rows.connection.fetchrow("select version, cap_ms from queue where id = $1", task)
    assert before is not None
    changed = await change_cap(
        rows.connection, task, rows.tenant, by_ms=None, to_ms=1234, longest_ms=LONGEST_MS, user="ann"
    )
    assert changed is not None
    after = await rows.connection.fetchrow("select version, cap_ms from queue where id = $1", task)
    assert after is not None
    assert (after["version"], after["cap_ms"]) == (before["version"] + 1, 1234)
    try:
        await change_cap(
            rows.connection, task, rows.tenant, by_ms=LONGEST_MS, to_ms=None, longest_ms=LONGEST_MS, user="ann"
        )
    except CapTooLong as error:
        assert error.cap_ms == LONGEST_MS + 1234
    assert await change_cap(rows.connection, task, 0, by_ms=1, to_ms=None, longest_ms=LONGEST_MS, user="ann") is None
