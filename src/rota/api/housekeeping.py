"""Small regular cleaning: old idempotency keys and flights, dead servers, progress of what ended, artifacts that are
kept no longer. Bounded a round, so that it never hurts.
"""

from __future__ import annotations

import asyncio

import structlog

from rota.admit.artifacts import Artifacts
from rota.model.errors import Problem
from rota.settings import Settings
from rota.store.cleaning import ROWS_A_ROUND, forget_concurrency_keys, forget_flights, forget_keys, forget_servers
from rota.store.database import Database
from rota.store.events import make_partitions
from rota.store.progress import forget_progress
from rota.store.run_times import forget_run_times
from rota.store.webhooks import forget_deliveries

log = structlog.get_logger()

ROUND_SECONDS = 30.0


async def run_housekeeping(database: Database, settings: Settings, artifacts: Artifacts) -> None:
    while True:
        await asyncio.sleep(ROUND_SECONDS)
        try:
            async with database.engine() as connection:
                await forget_keys(connection, hours=settings.idempotency_hours)
                await forget_flights(connection)
                await forget_concurrency_keys(connection)
                await forget_servers(connection)
                await forget_progress(connection)
                await forget_run_times(connection)
                await make_partitions(connection)
                await forget_deliveries(connection, rows=ROWS_A_ROUND)
            await artifacts.sweep()
        except Problem as error:
            log.debug("housekeeping.put_off", error=error.detail)
