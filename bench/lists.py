"""Lists among millions: fills a database with ended tasks and times each filter's page, as the API asks for it.

    python -m bench.lists postgresql://…/empty_database 10000000

Not part of the usual benchmarks: filling takes minutes. It prints the time of each page in the database, the median
of five, and which kinds of scan it used.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta

import asyncpg
import msgspec

from rota.model.task import State
from rota.store.database import Database
from rota.store.listing import TaskFilter, list_tasks
from rota.store.migrations import upgrade
from rota.store.reading import NEWEST

PARTITION = 5_000_000
SLICE = 500_000
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

# Two tenants share the rows. Names repeat every 1,000, schedules and tags are rarer, one task in a million expired.
TASKS = """
    insert into tasks (id, tenant, user_name, pool, kind, name, lane, priority, tolerance_ms, tolerance_given, start_by,
        tier, shape, scheduling, server, cap_ms, attempts, backoff_ms, backoff_limit_ms, upstream, spec, tags, schedule,
        created_at)
    select n, 1 + n % 2, 'u' || n % 10, 1, 1, 'name-' || n % 1000, 1, 0, 3600000, false, now(), 'basic', 1, 1, 0, 60000,
        1, 1000, 300000, 1, '{"command":["true"]}',
        case when n % 100003 = 0 then '{"team": "rare"}'::jsonb when n % 10 = 1 then '{"team": "ml"}'::jsonb
            when n % 10 = 2 then '{"team": "theirs"}'::jsonb end,
        case when n % 5001 = 0 then 7 end, timestamptz '2026-01-01 00:00+00' + n * interval '1 s'
    from generate_series($1::bigint, $2::bigint) n
"""
TAGS = """
    insert into task_tags (task, tenant, name, value)
    select id, tenant, key, value from tasks cross join lateral jsonb_each_text(tags) tag
    where id between $1::bigint and $2::bigint and tags is not null
"""
ATTEMPTS = """
    insert into attempts (task, number, tenant, state, outcome, node)
    select n, 1, 1 + n % 2, case when n % 1000001 = 0 then 14 when n % 50 = 1 then 11 else 10 end, 1, 1 + n % 7
    from generate_series($1::bigint, $2::bigint) n
"""

CASES = {
    "newest 50": TaskFilter(),
    "state done": TaskFilter(states=[State.DONE]),
    "state failed": TaskFilter(states=[State.FAILED]),
    "state expired (rare)": TaskFilter(states=[State.EXPIRED]),
    "state cancelled (none)": TaskFilter(states=[State.CANCELLED]),
    "status waiting (none)": TaskFilter(states=[State.READY, State.BLOCKED, State.DELAYED, State.PAUSED]),
    "name": TaskFilter(name="name-41"),
    "name nobody has": TaskFilter(name="none"),
    "name and rare state": TaskFilter(name="name-41", states=[State.EXPIRED]),
    "name and common state": TaskFilter(name="name-41", states=[State.FAILED]),
    "tag, common": TaskFilter(tag=("team", "ml")),
    "tag, rare": TaskFilter(tag=("team", "rare")),
    "tag nobody has": TaskFilter(tag=("team", "none")),
    "tag and rare state": TaskFilter(tag=("team", "ml"), states=[State.EXPIRED]),
    "tag of others alone": TaskFilter(tag=("team", "theirs")),
    "schedule": TaskFilter(schedule=7),
    "schedule and rare state": TaskFilter(schedule=7, states=[State.EXPIRED]),
    "worker": TaskFilter(nodes=[3]),
    "worker nobody has": TaskFilter(nodes=[99]),
    "user": TaskFilter(user="u1"),
    "time, newest": TaskFilter(since=EPOCH + timedelta(seconds=9_999_000)),
    "time, long ago": TaskFilter(since=EPOCH + timedelta(seconds=100_000), until=EPOCH + timedelta(seconds=101_000)),
}


async def fill(url: str, rows: int) -> None:
    connection = await asyncpg.connect(url, command_timeout=3600)
    await connection.execute("set synchronous_commit = off")
    for first in range(0, rows + 1, PARTITION):
        await connection.execute("select make_partition($1, $2)", first, PARTITION)
    for name in ("a", "b"):
        await connection.execute(
            "insert into tenants (name, plan) values ($1, 'unlimited') on conflict do nothing", f"lists-{name}"
        )
    await connection.execute(
        "insert into shapes (cpu_milli, memory_bytes, disk_bytes, gpus, ports, custom, require) "
        "values (1, 1, 1, 0, 0, '{}', '{}') on conflict do nothing"
    )
    for first in range(1, rows + 1, SLICE):
        for statement in (TASKS, TAGS, ATTEMPTS):
            await connection.execute(statement, first, min(first + SLICE - 1, rows))
        sys.stderr.write(f"{first + SLICE - 1:,}\n")
    await connection.execute("analyze")
    await connection.close()


async def measure(url: str) -> None:
    database = Database(url)
    tenant = 2
    for name, wanted in CASES.items():
        took, page = [], None
        for _ in range(5):
            async with database.tenant(tenant) as connection:
                began = time.perf_counter()
                page = await list_tasks(connection, tenant, wanted, before=NEWEST, limit=50)
                took.append((time.perf_counter() - began) * 1e3)
        assert page is not None
        line = {"list": name, "ms": round(statistics.median(took), 2), "slowest_ms": round(max(took), 2)}
        sys.stdout.write(msgspec.json.encode({**line, "rows": len(page.rows), "more": page.next is not None}).decode())
        sys.stdout.write("\n")
    await database.close()


async def main(url: str, rows: int) -> None:
    await upgrade(url)
    await fill(url, rows)
    await measure(url)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
