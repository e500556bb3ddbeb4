"""Typical run times as leaders learn them, for the default tolerance; a bounded number of names for each tenant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from rota.store.database import AnyConnection
from rota.store.statements import columns, sql

MOST_READ = 200_000
MOST_A_TENANT = 1_000

Work = tuple[int, int]  # tenant, hash of (kind, name)


async def save_run_times(connection: AnyConnection, typical_us: Mapping[Work, int]) -> None:
    """Writes in order, so that the leaders of two pools never deadlock."""
    rows = sorted(typical_us.items())
    await connection.execute(
        sql("run_times/save_run_times"), *columns([work for work, _ in rows], 0, 1), *columns(rows, 1)
    )


async def read_run_times(connection: AnyConnection, since: datetime) -> list[tuple[int, int, int]]:
    """(tenant, work, typical µs) learned since then; only the newest, if there are too many."""
    rows = await connection.fetch(sql("run_times/read_run_times"), since, MOST_READ)
    return [tuple(row) for row in reversed(rows)]


async def forget_run_times(connection: AnyConnection) -> None:
    """Deletes work that has not run for a month, and all but the newest MOST_A_TENANT names of a tenant."""
    await connection.execute(sql("run_times/forget_unused"))
    await connection.execute(sql("run_times/forget_excess"), MOST_A_TENANT)
