"""A leader knows which attempts stand still: those of nodes that have been silent for longer than their fence.

Timings are scaled to a fifth: the fence is 4 s, the grace 6 s.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from rota import wire
from rota.dispatch.agent_connection import enter, listen
from rota.dispatch.frozen_attempts import frozen_by_node
from rota.dispatch.pool_questions import Insight, Question
from rota.model.resources import Resources
from tests.dispatch.leading import Leading
from tests.store.rows import BOOT

HELLO = wire.Hello(
    protocol=1,
    name="n",
    boot=BOOT,
    floor=0,
    capacity=Resources(cpu_milli=4000, memory_bytes=10**10),
    labels={},
    capabilities=[],
    version="",
)


@pytest.fixture
async def now(leading: Leading) -> list[float]:
    """The leader's clock, for a test to move."""
    now = [1000.0]
    leading.pool.clock = lambda: now[0]
    leading.pool.began_at = now[0]
    return now


async def test_attempts_of_a_node_that_is_silent_for_longer_than_their_fence_are_frozen(
    leading: Leading, now: list[float]
) -> None:
    pool, node = leading.pool, leading.rows.node
    task = await leading.running()
    pool.attempts[task].grace_ms = 6000
    now[0] += 3.9
    assert frozen_by_node(pool).total() == 0
    now[0] += 0.2
    assert frozen_by_node(pool) == {node: 1}
    (explanation,) = (await Insight(pool).answer(Question([task]))).explanations
    assert explanation is not None
    assert (explanation.reason, explanation.likely_node) == ("frozen", node)
    assert "silent for 4.1 s" in explanation.sentence
    assert "back within 1.9 s" in explanation.sentence


async def test_a_node_that_is_back_has_no_frozen_attempts_and_tells_how_many_thawed(
    leading: Leading, now: list[float]
) -> None:
    pool, node = leading.pool, leading.rows.node
    task = await leading.running()
    now[0] += 20.0
    session = enter(pool, cast(Any, None), HELLO, node=node, draining=False)
    assert wire.decode_to_agent(session.take()[0]) == wire.Registered(node, [(task, 1)])
    listen(pool, session, wire.Inventory(present=[(task, 1)], unknown=[], frozen=[(task, 1)]))
    assert frozen_by_node(pool).total() == 0
    assert pool.counters.thawed == 1
    (explanation,) = (await Insight(pool).answer(Question([task]))).explanations
    assert explanation is not None
    assert explanation.reason == "running"
    listen(pool, session, wire.Heartbeat(sent=1.0, attempts=1, frozen=1))
    assert frozen_by_node(pool) == {node: 1}, "its own word: acknowledgements do not reach it"


async def test_a_node_keeps_its_name_in_sentences_while_it_is_away(leading: Leading, now: list[float]) -> None:
    pool, node = leading.pool, leading.rows.node
    session = enter(pool, cast(Any, None), HELLO, node=node, draining=False)
    task = await leading.running()
    pool.leave(session)
    now[0] += 1.0
    (explanation,) = (await Insight(pool).answer(Question([task]))).explanations
    assert explanation is not None
    assert explanation.sentence.startswith("it has run on n for ")
