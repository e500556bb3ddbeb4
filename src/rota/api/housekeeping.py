"""Small regular cleaning: old idempotency keys, old flights, dead servers. Bounded a round, so it never hurts."""

from __future__ import annotations

import asyncio

import structlog

from rota.model.errors import Problem
from rota.settings import Settings
from rota.store.cleaning import forget_concurrency_keys, forget_flights, forget_keys, forget_servers
from rota.store.database import Database
from rota.store.run_times import forget_run_times

log = structlog.get_logger()

ROUND_SECONDS = 30.0


async def run_housekeeping(database: Database, settings: Settings) -> None:
    while True:
        await asyncio.sleep(ROUND_SECONDS)
        try:
            async with database.engine() as connection:
                await forget_keys(connection, hours=settings.idempotency_hours)
                await forget_flights(connection)
                await forget_concurrency_keys(connection)
                await forget_servers(connection)
                await forget_run_times(connection)
        except Problem as error:
            log.debug("housekeeping.database_away", error=error.detail)
