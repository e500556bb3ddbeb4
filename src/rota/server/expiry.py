"""The loop that drops tasks at their start-by time. Several server nodes may run it: each task is dropped once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import structlog

from rota.model.errors import Problem
from rota.store.database import Database
from rota.store.expiry import MOST_AT_ONCE, Expired, expire_tasks

log = structlog.get_logger()

LOOK_SECONDS = 1.0


async def run_expiry(database: Database, tell: Callable[[Expired], None]) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await expire_all(database, tell)
        except Problem as error:
            log.debug("expiry.database_away", error=error.detail)
        except asyncpg.TransactionRollbackError as error:  # a deadlock with a settlement: nothing was dropped
            log.debug("expiry.rolled_back", error=repr(error))


async def expire_all(database: Database, tell: Callable[[Expired], None]) -> None:
    """Drops all tasks whose start-by time has passed, one batch for each transaction."""
    while True:
        async with database.engine() as connection:
            expired = await expire_tasks(connection)
        if expired.tasks:
            tell(expired)
        if len(expired.tasks) < MOST_AT_ONCE:
            return
