"""Lists of tasks: each filter gives exactly what it says, pages are stable under writes, and plans keep to indexes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.model.task import State
from rota.store import listing
from rota.store.graphs import GraphFilter, list_graphs
from rota.store.listing import TaskFilter, list_tasks
from rota.store.reading import NEWEST
from tests.harness.postgres import TestPostgres
from tests.store.plans.explained import Explained
from tests.store.rows import Rows

ROWS = 20_000
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

# Task n: named by n % 100, of schedule 7 every 1,000, tagged every 500 and if odd, by two users, a second apart; every
# tenth live. Another tenant has a tag of its own as often as there are tasks. Graph 8 has a few of them from all over,
# graph 9 most of the oldest.
FILL = """
    insert into tasks (id, tenant, user_name, pool, kind, name, lane, priority, tolerance_ms, tolerance_given, start_by,
        tier, shape, scheduling, server, cap_ms, attempts, backoff_ms, backoff_limit_ms, upstream, spec, tags, schedule,
        created_at)
    select n, {tenant}, 'u' || n % 2, 1, 1, 'name-' || n % 100, 1, 0, 3600000, false, now(), 'basic', {shape}, 1, 0,
        60000, 1, 1000, 300000, 1, '{{}}', case when n % 500 = 0 then '{{"team": "ml"}}'::jsonb when n % 2 = 1 then '{{"side": "odd"}}'::jsonb end,
        case when n % 1000 = 0 then 7 end, timestamptz '2026-01-01 00:00+00' + n * interval '1 s'
    from generate_series(1, {rows}) n;
    insert into queue (id, pool, tenant, lane, urgency, start_by, cap_ms, shape, work, state, attempts)
    select n, 1, {tenant}, 1, 0, now(), 60000, {shape}, 7, 3, 1 from generate_series(10, {rows}, 10) n;
    insert into attempts (task, number, tenant, state, outcome, node)
    select n, case when n = 77 then 0 else 1 end, {tenant}, case when n = 77 then 14 when n % 5 = 1 then 11 else 10 end,
        case when n = 77 then 11 else 1 end, 1 + n % 3
    from generate_series(1, {rows}) n where n % 10 <> 0;
    insert into graph_tasks (graph, task, tenant, name, place)
    select 8, n, {tenant}, 'member-' || n, n from generate_series(100, {rows}, 400) n;
    insert into graph_tasks (graph, task, tenant, name, place)
    select 9, n, {tenant}, 'member-' || n, n from generate_series(1, 5000) n where n % 400 <> 100;
    insert into task_tags (task, tenant, name, value) select n, {tenant} + 1, 'team', 'theirs'
    from generate_series(1, {rows}) n;
    insert into task_tags (task, tenant, name, value) select id, tenant, key, value
    from tasks cross join lateral jsonb_each_text(tags) tag where tags is not null;
    analyze;
"""


def live(n: int) -> bool:
    return n % 10 == 0


def made(**save_request: Any) -> TaskFilter:
    return TaskFilter(**save_request)


CASES: dict[str, tuple[TaskFilter, Any]] = {
    "everything": (made(), lambda n: True),
    "a state": (made(states=[State.FAILED]), lambda n: not live(n) and n % 5 == 1),
    "a rare state": (made(states=[State.EXPIRED]), lambda n: n == 77),
    "live ones": (made(states=[State.READY]), live),
    "a name": (made(name="name-42"), lambda n: n % 100 == 42),
    "a name and a state": (made(name="name-41", states=[State.FAILED]), lambda n: n % 100 == 41),
    "a name nobody has": (made(name="none"), lambda n: False),
    "a tag": (made(tag=("team", "ml")), lambda n: n % 500 == 0),
    "a tag and a state": (made(tag=("team", "ml"), states=[State.READY]), lambda n: n % 500 == 0),
    "a tag and a rare state": (made(tag=("team", "ml"), states=[State.EXPIRED]), lambda n: False),
    "a tag and a name": (made(tag=("team", "ml"), name="name-0"), lambda n: n % 500 == 0),
    "a tag that others have": (made(tag=("team", "theirs")), lambda n: False),
    "a common tag": (made(tag=("side", "odd")), lambda n: n % 2 == 1 and n % 500 != 0),
    "a common tag and a user": (made(tag=("side", "odd"), user="u0"), lambda n: False),
    "a name and a rare state": (made(name="name-77", states=[State.EXPIRED]), lambda n: n == 77),
    "another name and a rare state": (made(name="name-41", states=[State.EXPIRED]), lambda n: False),
    "a schedule and a state": (made(schedule=7, states=[State.READY]), lambda n: n % 1000 == 0),
    "a schedule and a rare state": (made(schedule=7, states=[State.EXPIRED]), lambda n: False),
    "a tag nobody has": (made(tag=("team", "x")), lambda n: False),
    "a schedule": (made(schedule=7), lambda n: n % 1000 == 0),
    "a graph": (made(graph=8), lambda n: n % 400 == 100),
    "a large graph": (made(graph=9), lambda n: n <= 5000 and n % 400 != 100),
    "a graph nobody has": (made(graph=1), lambda n: False),
    "a graph and a state": (made(graph=9, states=[State.FAILED]), lambda n: n <= 5000 and not live(n) and n % 5 == 1),
    "a graph and a name": (made(graph=9, name="name-42"), lambda n: n <= 5000 and n % 100 == 42),
    "a worker": (made(nodes=[2], states=[State.DONE]), lambda n: not live(n) and n % 5 != 1 and n != 77 and n % 3 == 1),
    "a user": (made(user="u1", states=[State.FAILED]), lambda n: not live(n) and n % 5 == 1 and n % 2 == 1),
    "a time": (
        made(since=EPOCH + timedelta(seconds=5000), until=EPOCH + timedelta(seconds=5100)),
        lambda n: 5000 <= n < 5100,
    ),
    "a time and a name": (
        made(since=EPOCH + timedelta(seconds=15000), name="name-3"), lambda n: n >= 15000 and n % 100 == 3,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(postgres: TestPostgres) -> str:
    return postgres.create()


@pytest.fixture
async def many(filled: str) -> AsyncIterator[Rows]:
    rows = await Rows.open(filled)
    owner = await rows.connection.fetchval("select min(tenant) from tasks")
    if owner is None:
        await rows.connection.execute(FILL.format(tenant=rows.tenant, shape=rows.shape, rows=ROWS))
    else:
        rows.tenant = owner
    yield rows
    await rows.close()


@pytest.mark.parametrize("case", CASES)
async def test_every_filter_gives_what_it_says_newest_first(many: Rows, case: str) -> None:
    wanted, right = CASES[case]
    found: list[int] = []
    before: int | None = NEWEST
    async with many.database.tenant(many.tenant) as connection:
        while before is not None and len(found) < 120:
            page = await list_tasks(connection, many.tenant, wanted, before=before, limit=50, walk=700)
            found += [row["id"] for row in page.rows]
            before = page.next
    expected = [n for n in range(ROWS, 0, -1) if right(n)]
    assert found == expected[: len(found)]
    assert before is not None or found == expected


@pytest.mark.parametrize("case", CASES)
async def test_every_filter_keeps_to_indexes(many: Rows, case: str) -> None:
    async with many.database.tenant(many.tenant) as connection:
        explained = Explained(connection)  # type: ignore[arg-type]
        await list_tasks(explained, many.tenant, CASES[case][0], before=NEWEST, limit=50)  # type: ignore[arg-type]
    # The partitions ahead are empty: there a sequential scan is as good as any.
    sequential = {table for kind, table, ran in explained.scans() if ran and kind == "Seq Scan"}
    assert not sequential & {"tasks_0", "attempts_0", "task_tags_0", "queue"}
    # An index that is walked from end to end is none: what a page reads is bounded by what it looks at.
    assert explained.most_read() <= listing.WALK + 1


async def test_pages_are_stable_while_tasks_come_and_end(many: Rows) -> None:
    async with many.database.tenant(many.tenant) as connection:
        first = await list_tasks(connection, many.tenant, made(), before=NEWEST, limit=10)
    newest = first.rows[0]["id"]
    await many.connection.execute("select setval('task_ids', greatest($1, (select last_value from task_ids)))", ROWS)
    added = await many.task()
    assert first.next is not None
    async with many.database.tenant(many.tenant) as connection:
        second = await list_tasks(connection, many.tenant, made(), before=first.next, limit=10)
    ids = [row["id"] for row in first.rows + second.rows]
    assert ids == list(range(newest, newest - 20, -1))
    for table, column in (("queue", "id"), ("tasks", "id")):
        await many.connection.execute(f"delete from {table} where {column} = $1", added)


async def test_names_of_nodes_and_schedules_are_found(many: Rows) -> None:
    name = await many.connection.fetchval("select name from nodes where id = $1", many.node)
    async with many.database.tenant(many.tenant) as connection:
        assert await listing.find_nodes(connection, name) == [many.node]
        assert await listing.find_nodes(connection, "nowhere") == []
        assert await listing.find_schedule(connection, many.tenant, "none") is None


# Graphs 10,001 to 12,000: named by n % 100, every 250th made by schedule 7, an array if odd, a second apart.
GRAPHS = range(12_000, 10_000, -1)
FILL_GRAPHS = """
    insert into graphs (id, tenant, name, user_name, is_array, created_at)
    select n, {tenant}, 'graph-' || n % 100, 'u', n % 2 = 1,
        timestamptz '2026-01-01 00:00+00' + n * interval '1 s'
    from generate_series(10001, 12000) n;
    insert into occurrences (schedule, instant, tenant, trigger_kind, tasks, graph)
    select 7, timestamptz '2026-01-01 00:00+00' - n * interval '1 s', {tenant}, 1, '{{}}', n
    from generate_series(10250, 12000, 250) n;
    analyze graphs, occurrences;
"""
GRAPH_CASES: dict[str, tuple[GraphFilter, Any]] = {
    "everything": (GraphFilter(), lambda n: True),
    "a name": (GraphFilter(name="graph-7"), lambda n: n % 100 == 7),
    "a schedule": (GraphFilter(schedule=7), lambda n: n % 250 == 0),
    "a schedule's arrays": (GraphFilter(schedule=7, arrays=True), lambda n: False),
    "nobody's": (GraphFilter(user="nobody"), lambda n: False),
    "arrays of a time": (
        GraphFilter(arrays=True, until=EPOCH + timedelta(seconds=10900)), lambda n: n % 2 == 1 and n < 10900,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GRAPH_CASES)
async def test_every_filter_of_graphs_gives_what_it_says_and_reads_a_bounded_number(many: Rows, case: str) -> None:
    if not await many.connection.fetchval("select count(*) from graphs"):
        await many.connection.execute(FILL_GRAPHS.format(tenant=many.tenant))
    wanted, right = GRAPH_CASES[case]
    found: list[int] = []
    before: int | None = NEWEST
    async with many.database.tenant(many.tenant) as connection:
        explained = Explained(connection)  # type: ignore[arg-type]
        await list_graphs(explained, many.tenant, wanted, before=NEWEST, limit=50, walk=300)  # type: ignore[arg-type]
        while before is not None:
            page = await list_graphs(connection, many.tenant, wanted, before=before, limit=50, walk=300)
            found += [row["id"] for row in page.rows]
            before = page.next
    assert found == [n for n in GRAPHS if right(n)]
    assert explained.most_read() <= 300 + 1
