"""A request is never refused because of stale facts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from rota.admit import facts_cache
from rota.admit.facts_cache import FactsCache
from rota.model.queue import work_hash
from rota.model.resources import Resources
from rota.model.task import Kind
from rota.store.nodes import register_node
from rota.store.run_times import MOST_A_TENANT, forget_run_times, save_run_times
from tests.admit.node import Node, running_node, task
from tests.harness.postgres import TestPostgres

GIB = 2**30


@pytest.fixture
def own_database(postgres: TestPostgres) -> str:
    return postgres.create()


async def _join(node: Node, name: str, *, gpus: int) -> None:
    capacity = Resources(cpu_milli=1_000, memory_bytes=GIB, disk_bytes=GIB, gpus=gpus)
    async with node.database.engine() as connection:
        await register_node(
            connection, pool=1, name=name, boot=1, capacity=capacity, labels={}, capabilities=[], version="0",
        )  # fmt: skip


async def test_a_node_that_joined_a_moment_ago_is_no_reason_to_refuse(own_database: str) -> None:
    async with running_node(own_database) as node:
        caller = await node.caller()
        await _join(node, "plain", gpus=0)
        await node.facts.refresh()
        await _join(node, "rich", gpus=4)
        # However lately the facts were read: each request is judged by facts read after it came.
        admitted = await asyncio.gather(*(node.submit(caller, task(gpus=gpus)) for gpus in (1, 2, 3, 4)))
        assert [len(one.rows) for one in admitted] == [1, 1, 1, 1]


async def test_the_time_of_a_server_node_is_never_ahead_of_the_databases(
    own_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor set back, however long an answer about the time was on its way: "until now" has what was acknowledged."""
    seconds, told, way = 100.0, datetime(2030, 1, 31, tzinfo=UTC), 3.0

    async def on_its_way(_: object) -> datetime:
        nonlocal seconds
        seconds += way
        return told

    monkeypatch.setattr(facts_cache, "database_clock", on_its_way)
    monkeypatch.setattr(facts_cache, "time", SimpleNamespace(monotonic=lambda: seconds))
    async with running_node(own_database) as node:
        facts = FactsCache(node.database)
        await facts.refresh()
        assert facts.now() == told
        seconds += 1.0
        behind = told + timedelta(seconds=1) - facts.now()
        assert timedelta(0) < behind < timedelta(milliseconds=1)

        told, way = told + timedelta(seconds=4), 0.0  # so the first answer had been on its way for three seconds
        await facts.refresh()
        assert facts.now() == told
        way = 5.0
        await facts.refresh()  # asked at this moment, and five seconds on its way
        behind = told + timedelta(seconds=5) - facts.now()
        assert timedelta(0) < behind < timedelta(milliseconds=1), "a late answer sets nothing back"
        told, way = told - timedelta(hours=1), 0.0  # somebody set the database's clock
        await facts.refresh()
        assert facts.now() == told


async def test_a_hint_that_something_changed_has_the_facts_read_at_once(
    own_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_cache, "REFRESH_SECONDS", 3600.0)
    async with running_node(own_database) as node:
        caller = await node.caller()
        await node.facts.refresh()
        reading = asyncio.create_task(node.facts.run())
        await _join(node, "plain", gpus=0)
        node.facts.hint()
        async with asyncio.timeout(10):
            while not node.facts.of(caller).pools["default"].nodes:
                await asyncio.sleep(0.01)
        reading.cancel()


async def test_learned_run_times_count_for_their_own_tenant_only(own_database: str) -> None:
    async with running_node(own_database) as node:
        caller, other = await node.caller(), await node.caller()
        async with node.database.engine() as connection:
            await save_run_times(connection, {(caller.tenant_id, work_hash(Kind.COMMAND, "true")): 2_000_000})
        view = await fresh_facts(node)
        assert view.of(caller).typical_us == {work_hash(Kind.COMMAND, "true"): 2_000_000}
        assert view.of(other).typical_us == {}


async def fresh_facts(node: Node) -> FactsCache:
    """The facts of a server node that starts now."""
    view = FactsCache(node.database)
    await view.refresh()
    return view


async def test_a_tenant_that_makes_up_ever_new_names_is_remembered_by_its_newest(own_database: str) -> None:
    async with running_node(own_database) as node:
        async with node.database.engine() as connection:
            await save_run_times(connection, {(1, name): 1 for name in range(MOST_A_TENANT)})
            await save_run_times(connection, {(1, name): 2 for name in range(MOST_A_TENANT, MOST_A_TENANT + 5)})
            await save_run_times(connection, {(2, name): 3 for name in range(5)})
            await forget_run_times(connection)
            found = await connection.fetch(
                "select tenant, typical_us, count(*) from run_times group by 1, 2 order by 1, 2"
            )
        assert [tuple(row) for row in found] == [(1, 1, MOST_A_TENANT - 5), (1, 2, 5), (2, 3, 5)]
