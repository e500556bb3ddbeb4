"""How long work usually takes, as leaders have learned it: kept for tolerances nobody gave, a few names a tenant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from rota.store.database import AnyConnection

MOST_READ = 200_000
MOST_A_TENANT = 1_000

Work = tuple[int, int]  # tenant, hash of (kind, name)


async def save_run_times(connection: AnyConnection, typical_us: Mapping[Work, int]) -> None:
    """In order, so that the leaders of two pools never wait for each other in a circle."""
    rows = sorted(typical_us.items())
    await connection.execute(
        """insert into run_times (tenant, work, typical_us)
            select * from unnest($1::integer[], $2::integer[], $3::bigint[])
            on conflict (tenant, work) do update set typical_us = excluded.typical_us, learned_at = now()""",
        [tenant for (tenant, _), _ in rows], [work for (_, work), _ in rows], [typical for _, typical in rows],
    )  # fmt: skip


async def read_run_times(connection: AnyConnection, since: datetime) -> list[tuple[int, int, int]]:
    """(tenant, work, typical) of all that was learned since then; the newest, should that be too many."""
    rows = await connection.fetch(
        """select tenant, work, typical_us from run_times where learned_at > $1 order by learned_at desc limit $2""",
        since, MOST_READ,
    )  # fmt: skip
    return [tuple(row) for row in reversed(rows)]


async def forget_run_times(connection: AnyConnection) -> None:
    """Work nobody has run for a month, and all but the newest names of a tenant that makes up ever new ones."""
    await connection.execute("delete from run_times where learned_at < now() - interval '30 days'")
    await connection.execute(
        """delete from run_times where (tenant, work) in (
            select known.tenant, known.work from (
                select tenant, work, row_number() over (partition by tenant order by learned_at desc) as place
                from run_times
                where tenant in (select tenant from run_times group by tenant having count(*) > $1)
            ) known where known.place > $1)""",
        MOST_A_TENANT,
    )
