"""The lateness of schedules: many with the same instant, each with a task of its own, in several zones."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime

import asyncpg

from bench.stand import Stand

AHEAD_SECONDS = 3.0
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Asia/Tokyo")

_INSERT = """
    insert into schedules (tenant, name, user_name, rule_kind, rule_text, zone, anchor, request, missed, missed_limit,
        overlap, next_at, previous_at)
    select (select id from tenants where name = 'default'), 'bench-' || number, 'bench', 'every', 'PT24H',
        ($3::text[])[1 + number % $4::integer], $2::timestamptz, format(
            '{"tasks": [{"command": ["true", "%s"], "cap": "1m", "unplaceable": "wait"}]}', number)::json,
        'once', 100, case when number % 2 = 0 then 'allow' else 'skip' end, $2::timestamptz,
        $2::timestamptz - interval '1 day'
    from generate_series(1, $1) number"""


def schedules(stand: Stand, *, count: int, repetitions: int) -> None:
    """All at one instant. Lateness is the time from the instant to the beginning of its batch's transaction."""
    for _ in range(repetitions):
        before = stand.mark()
        figures = asyncio.run(_fire(stand.database, count))
        stand.report("schedules at one instant", count, before, stand.mark(), **figures)


async def _fire(url: str, count: int) -> dict[str, object]:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("delete from schedules; delete from occurrences")
        at: datetime = await connection.fetchval("select clock_timestamp() + make_interval(secs => $1)", 600.0)
        await connection.execute(_INSERT, count, at, list(_ZONES), len(_ZONES))
        await connection.execute("analyze schedules")
        at = await connection.fetchval(
            """update schedules set next_at = moment.at, anchor = moment.at
                from (select clock_timestamp() + make_interval(secs => $1) as at) moment
                returning next_at""",
            AHEAD_SECONDS + count / 10_000,  # this statement takes its time too
        )
        deadline = time.monotonic() + 300
        while await connection.fetchval("select count(*) from occurrences") < count:
            if time.monotonic() > deadline:
                raise RuntimeError("not every schedule has an occurrence after 5 minutes")
            await asyncio.sleep(0.2)
        row = await connection.fetchrow(
            """select extract(epoch from percentile_cont(0.5) within group (order by at - instant))::float8 as p50,
                extract(epoch from percentile_cont(0.99) within group (order by at - instant))::float8 as p99,
                extract(epoch from max(at) - min(instant))::float8 as last,
                (select count(*) from tasks where scheduled_for = min(instant)) as tasks
                from occurrences"""
        )
        assert row is not None
        assert row["tasks"] == count, "one task each"
        return {
            "lateness_p50_seconds": round(row["p50"], 2),
            "lateness_p99_seconds": round(row["p99"], 2),
            "all_done_seconds": round(row["last"], 2),
            "per_second": round(count / max(row["last"], 0.001)),
        }
    finally:
        await connection.close()
