"""Hot statements keep to their indexes and to their partitions, whatever the statistics say.

Plans flip on fresh tables (DESIGN.md, "What measurement taught"): so each statement is looked at twice, on 50,000 rows
that PostgreSQL has never analyzed (it believes the tables empty) and on the same rows analyzed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from rota.model.attempt import Outcome
from rota.model.queue import BEFORE_ALL
from rota.model.task import State
from rota.settle.settlement import Reported, settle
from rota.store import concurrency_keys, queue
from rota.store.concurrency_keys import PlaceRequest
from rota.store.listing import TaskFilter, list_tasks
from rota.store.queue import StartRequest, Wanted
from rota.wire import Result
from tests.harness.lanes import RANKS
from tests.harness.postgres import TestPostgres
from tests.store.plans.explained import Explained
from tests.store.rows import BOOT, Rows

ROWS = 50_000
PARTITION = 5_000_000
FAR = 40 * PARTITION  # the rows are in partition 40 of many
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

FILL = """
    insert into tasks (id, tenant, user_name, pool, kind, name, lane, priority, tolerance_ms, tolerance_given, start_by,
        tier, shape, scheduling, server, cap_ms, attempts, backoff_ms, backoff_limit_ms, upstream, spec)
    select $1::bigint + n, $2, 'u', 1, 1, 'work', 1, 0, 3600000, false, now(), 'basic', $3, 1, 0, 60000, 1, 1000,
        300000, 1, '{}' from generate_series(1, $4::int) n;
"""
FILL_QUEUE = """
    insert into queue (id, pool, tenant, lane, urgency, start_by, cap_ms, shape, work, state, attempts, wake_at,
        attempt, node, boot, epoch)
    select $1::bigint + n, 1, $2, 1, 0, now(), 60000, $3, 7,
        case when n % 10 = 0 then 4 when n % 10 = 1 then 2 else 3 end, 1, case when n % 10 = 1 then now() - interval '1 minute' end, 1, 1, $5::bigint, 1
    from generate_series(1, $4::int / 2) n;
"""
FILL_ENDED = """
    insert into attempts (task, number, tenant, state, outcome)
    select $1::bigint + n, 1, $2, case when n % 2 = 0 then 10 else 11 end, 1
    from generate_series($4::int / 2 + 1, $4::int) n;
"""
FILL_EDGES = """
    insert into edges (parent, child, child_pool, upstream)
    select $1::bigint + n, $1::bigint + n + 1, 2, 1 from generate_series(1, $4::int / 2) n;
"""


@pytest.fixture(params=["never analyzed", "analyzed"])
async def many_rows(request: pytest.FixtureRequest, postgres: TestPostgres) -> AsyncIterator[Rows]:
    rows = await Rows.open(await postgres.create_async())
    connection = rows.connection
    for number in range(3, 60):
        await connection.execute("select make_partition($1, $2)", number * PARTITION, PARTITION)
    for table in ("queue", "edges"):
        await connection.execute(f"alter table {table} set (autovacuum_enabled = off)")
    for statement in (FILL, FILL_QUEUE, FILL_ENDED, FILL_EDGES):
        values = f"$1={FAR}", f"$2={rows.tenant}", f"$3={rows.shape}", f"$4={ROWS}", f"$5={BOOT}"
        for pair in reversed(values):
            statement = statement.replace(*pair.split("=", 1))
        await connection.execute(statement)
    if request.param == "analyzed":
        await connection.execute("analyze")
    yield rows
    await rows.close()


async def test_hot_statements_use_indexes_only_and_touch_no_partition_but_their_own(many_rows: Rows) -> None:
    fence = await many_rows.lead()
    plans = {}

    starting = Explained(many_rows.connection)
    versions = dict(await many_rows.connection.fetch("select id, version from queue"))
    chosen = [FAR + n for n in range(3, 2003, 10)]
    requests = [StartRequest(task, versions[task], many_rows.node, BOOT, 30_000) for task in chosen]
    assert len(await queue.start_attempts(starting, fence, requests)) == len(chosen)  # type: ignore[arg-type]
    plans["start_attempts"] = starting

    settling = Explained(many_rows.connection)
    reports = [Reported(Result(FAR + n, 1, Outcome.OK, 5), BOOT) for n in range(10, 2010, 10)]
    assert len((await settle(settling, fence, reports)).ended) == len(reports)  # type: ignore[arg-type]
    plans["settle_done, resolve_edges"] = settling

    failing = Explained(many_rows.connection)
    reports = [Reported(Result(FAR + n, 1, Outcome.ERROR, 5), BOOT) for n in range(4010, 5010, 10)]
    assert len((await settle(failing, fence, reports)).ended) == len(reports)  # type: ignore[arg-type]
    plans["lock_attempts, end_tasks"] = failing

    holding = Explained(many_rows.connection)
    places = [
        PlaceRequest(StartRequest(task, versions[task], many_rows.node, BOOT, 30_000), many_rows.tenant, f"k{task}", 1)
        for task in [FAR + n for n in range(5, 1005, 10)]
    ]
    started, _ = await concurrency_keys.start_with_places(holding, fence, places)  # type: ignore[arg-type]
    await concurrency_keys.give_back(holding, 1, [one.task for one in started[:50]])  # type: ignore[arg-type]
    await concurrency_keys.sweep_places(holding, 1)  # type: ignore[arg-type]
    assert len(started) == len(places)
    plans["lock_keys, take_places, give_places_back, sweep_places"] = holding

    loading = Explained(many_rows.connection)
    wanted = [Wanted(many_rows.tenant, BEFORE_ALL, 200)]
    assert len(await queue.load_ready(loading, 1, wanted, RANKS)) == 200  # type: ignore[arg-type]
    assert len(await queue.load_due(loading, 1, [many_rows.tenant], [LONG_AGO], 200)) == 200  # type: ignore[arg-type]
    await queue.next_timers(loading, 1, [many_rows.tenant])  # type: ignore[arg-type]
    assert len(await queue.active_tenants(loading, 1)) == 1  # type: ignore[arg-type]
    plans["load_ready, load_due, next_timers, active_tenants"] = loading

    async with many_rows.database.tenant(many_rows.tenant) as confined:  # as the API reads: not pinned, not the owner
        listing = Explained(confined)  # type: ignore[arg-type]
        listed = await list_tasks(
            listing, many_rows.tenant, TaskFilter(states=[State.FAILED]), before=FAR + ROWS, limit=50,  # type: ignore[arg-type]
        )  # fmt: skip
    assert len(listed.rows) == 50
    plans["list_ended"] = listing

    wrong = {
        name: sorted({(kind, table) for kind, table, ran in one.scans() if ran and not _right(kind, table)})
        for name, one in plans.items()
    }
    assert wrong == {name: [] for name in plans}


@pytest.mark.parametrize("many_rows", ["analyzed"], indirect=True)
async def test_the_look_at_plans_sees_a_sequential_scan_and_a_strange_partition(many_rows: Rows) -> None:
    seeing = Explained(many_rows.connection)
    await many_rows.connection.execute("set enable_seqscan = on; set enable_indexscan = off")
    await seeing.fetch("select count(*) from queue where cap_ms > $1", 5)
    await seeing.fetch("select count(*) from tasks where name = $1", "work")
    wrong = {(kind, table) for kind, table, ran in seeing.scans() if ran and not _right(kind, table)}
    assert ("Seq Scan", "queue") in wrong
    assert any(table == "tasks_39" for _, table in wrong)


def _right(kind: str, table: str) -> bool:
    """Small tables may be read whole; the ledgers only in their one partition, and like the queue by index or ctid."""
    if table in ("queue", "edges") or table.startswith(("tasks_", "attempts_")):
        return kind in ("Index Scan", "Index Only Scan", "Tid Scan") and table in (
            "queue", "edges", f"tasks_{FAR // PARTITION}", f"attempts_{FAR // PARTITION}",
        )  # fmt: skip
    return True
