"""Plans of the hot statements made while statistics call the queue empty: they must still be right when it is full.

A leader prepares its statements once; the queue is empty one minute and huge the next, and nobody plans again.
"""

from __future__ import annotations

from uuid import uuid4

import asyncpg

from rota.store.database import PINNED_PLANS
from rota.store.graphs import GraphFilter, list_graphs, live_members, read_members
from rota.store.reading import NEWEST
from rota.store.statements import sql
from tests.store.plans.explained import Explained

TASKS = """
    insert into tasks (id, spec, scheduling, start_by, tenant, user_name, pool, kind, name, lane, priority, tolerance_ms,
        tolerance_given, tier, shape, server, cap_ms, attempts, backoff_ms, backoff_limit_ms, upstream)
    select i, '{}', 1, now(), 1, 'x', 1, 3, 'noop', 1, 0, 1000, false, 'basic', 1, 1, 1000, 1, 1, 1, 1
    from generate_series($1::bigint, $2::bigint) i"""
QUEUE = """
    insert into queue (id, state, start_by, pool, tenant, lane, urgency, cap_ms, shape, work, attempts)
    select i, 3, now(), 1, 1, 1, 0, 1000, 1, 1, 1 from generate_series($1::bigint, $2::bigint) i"""
START = "(smallint, bigint, uuid, bigint[], integer[], integer[], bigint[], integer[], bigint)"
SETTLE = """(smallint, bigint, uuid, bigint[], smallint[], bigint[], bigint[], bigint[], json[], integer[], bigint[],
    bigint[], bigint[], bigint[])"""
LOAD = """(smallint, integer[], integer[], integer[], timestamptz[], bigint[], bigint[], integer[],
    integer[], smallint[], integer[])"""


def array(value: object, count: int) -> str:
    return "'{" + ",".join([str(value)] * count) + "}'"


async def test_statements_planned_on_an_empty_queue_never_walk_a_full_one(database: str) -> None:
    connection = await asyncpg.connect(database, server_settings={**PINNED_PLANS, "jit": "off"})
    holder = uuid4()
    await connection.execute("insert into leases values (1, 5, $1, now() + interval '1 hour')", holder)
    await connection.execute(TASKS, 1, 20_000)
    await connection.execute(QUEUE, 1, 20_000)
    await connection.execute("delete from queue")
    for table in ("queue", "tasks", "attempts"):
        await connection.execute(f"vacuum analyze {table}")

    rules = await connection.fetchval("select rules from pools where id = 1")

    def start(ids: str, count: int) -> str:
        return f"st(1::smallint, 5, '{holder}', {ids}, {array(0, count)}, {array(1, count)}, {array(7, count)}, {array(1, count)}, {rules})"

    def settle(ids: str, count: int) -> str:
        zeros = array(0, count)
        return (
            f"sd(1::smallint, 5, '{holder}', {ids}, {array(1, count)}, {array(7, count)}, {zeros}, {zeros}, "
            f"{array(1, count)}, {zeros}, {zeros}, {zeros}, {zeros}, {zeros}, {zeros}, {zeros}, {zeros})"
        )

    load = "lr(1::smallint, '{1}', '{-1}', '{0}', '{2020-01-01}', '{0}', '{0}', '{100}', '{0,2,5}', '{0,1,2,3}', '{0,2,2,5}')"
    for name, kinds, statement in (
        ("st", START, "queue/start_attempts"),
        ("sd", SETTLE, "settlement/settle_done"),
        ("lr", LOAD, "queue/load_ready"),
    ):
        await connection.execute(f"prepare {name} {kinds} as {sql(statement)}")
    for call in (start("'{1}'", 1), settle("'{1}'", 1), load):
        await connection.execute(f"execute {call}")  # planned now, while the queue is empty
    await connection.execute(TASKS, 30_001, 50_000)
    await connection.execute(QUEUE, 30_001, 50_000)
    ids = "'{" + ",".join(str(number) for number in range(30_001, 30_101)) + "}'"
    for call in (load, start(ids, 100), settle(ids, 100)):
        rows = await connection.fetch(f"explain (analyze, costs off, timing off, buffers off) execute {call}")
        plan = "\n".join(row[0] for row in rows)
        walked = [line for line in plan.splitlines() if " on queue" in line and "rows=20000" in line]
        assert not walked, plan
        assert "Seq Scan on queue" not in plan
        looked_up = [line for line in plan.splitlines() if "Index Scan using queue_order" in line]
        assert not looked_up or call is load, plan
    assert await connection.fetchval("select count(*) from attempts where state = 10") == 100
    await connection.close()


async def test_a_graph_is_read_member_by_member_though_the_queue_was_empty_when_last_looked_at(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(TASKS, 60_001, 62_000)
    await connection.execute(QUEUE, 60_001, 62_000)
    await connection.execute("delete from queue")
    await connection.execute("vacuum analyze queue")
    await connection.execute(QUEUE, 60_001, 62_000)
    await connection.execute("insert into graphs (id, tenant, name, user_name) values (60000, 1, 'etl', 'u')")
    await connection.execute(
        """insert into graph_tasks (graph, task, tenant, name, place)
            select 60000, i, 1, 'n' || i, i from generate_series(60001, 62000) i"""
    )
    explained = Explained(connection)
    await list_graphs(explained, 1, GraphFilter(), before=NEWEST, limit=20)  # type: ignore[arg-type]
    await read_members(explained, 60_000, 1)  # type: ignore[arg-type]
    await live_members(explained, 60_000, 1)  # type: ignore[arg-type]
    assert explained.most_read() <= 2_000
    await connection.close()
