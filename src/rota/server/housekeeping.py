"""Loops that delete rows no longer needed, a bounded number in each round, and drop tasks that are too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import structlog

from rota.admit.artifacts import Artifacts
from rota.model.errors import Problem
from rota.settings import Settings
from rota.store import audit, audit_seals, cleaning, retention, sign_in
from rota.store.database import Database
from rota.store.events import make_partitions
from rota.store.expiry import MOST_AT_ONCE, Expired, expire_tasks
from rota.store.logins import forget_logins
from rota.store.long_logs import forget_segments
from rota.store.oidc import forget_sign_ins
from rota.store.operations import forget_operations
from rota.store.progress import forget_progress
from rota.store.run_times import forget_run_times
from rota.store.sessions import forget_sessions
from rota.store.sign_in_attempts import forget_attempts
from rota.store.webhooks import forget_deliveries
from rota.store.worker_keys import forget_worker_keys

log = structlog.get_logger()

ROUND_SECONDS = 30.0
EXPIRY_SECONDS = 1.0
COUNTS_SECONDS = 1.0
SEAL_SECONDS = 2.0


async def run_housekeeping(database: Database, settings: Settings, artifacts: Artifacts) -> None:
    while True:
        await asyncio.sleep(ROUND_SECONDS)
        try:
            async with database.engine() as connection:
                await cleaning.forget_keys(connection, hours=settings.idempotency_hours)
                await cleaning.forget_admission_commits(connection)
                await cleaning.forget_concurrency_keys(connection)
                await cleaning.forget_servers(connection)
                await forget_progress(connection)
                await forget_operations(connection, rows=cleaning.ROWS_A_ROUND)
                await forget_run_times(connection)
                await forget_sessions(connection, rows=cleaning.ROWS_A_ROUND)
                await forget_sign_ins(connection, rows=cleaning.ROWS_A_ROUND)
                await forget_logins(connection, rows=cleaning.ROWS_A_ROUND)
                await sign_in.forget(connection, rows=cleaning.ROWS_A_ROUND)
                await forget_attempts(connection, rows=cleaning.ROWS_A_ROUND)
                await forget_worker_keys(connection, rows=cleaning.ROWS_A_ROUND)
                await make_partitions(connection)
                await audit.make_months(connection)
            await artifacts.sweep()
        except Problem as error:
            log.debug("housekeeping.put_off", error=error.detail)


async def run_retention(database: Database, server: str) -> None:
    """Drops old partitions, and deletes a bounded number of old rows in each round."""
    after = members = graphs = segments = 0  # where the next round begins
    while True:
        await asyncio.sleep(ROUND_SECONDS)
        try:
            after = await retain(database, after)
            await retain_audit(database, server)
            members, graphs = await retain_graphs(database, members, graphs)
            segments = await retain_segments(database, segments)
        except Problem as error:
            log.debug("retention.put_off", error=error.detail)


async def retain(database: Database, after: int) -> int:
    """One round. Returns where the next one begins to check single rows."""
    async with database.engine() as connection:
        kept = await retention.read_retention(connection)
        if kept.events_days is not None:
            for day in await retention.drop_old_events(connection, kept.events_days):
                log.info("retention.dropped", partition=day)
        if kept.deliveries_days is not None:
            await forget_deliveries(connection, kept.deliveries_days, rows=cleaning.ROWS_A_ROUND)
        if kept.tasks_days is not None:
            for number in await retention.drop_old_ranges(connection, kept.tasks_days):
                log.info("retention.dropped", tasks=number)
            await retention.forget_orphans(connection)
            after = await retention.forget_old_tasks(connection, kept.tasks_days, after=after)
        if kept.logs_days is not None:
            for number in await retention.drop_old_ranges(connection, kept.logs_days, logs_only=True):
                log.info("retention.dropped", logs=number)
    return after


async def retain_audit(database: Database, server: str) -> None:
    """Drops the oldest month of the audit log, if all of it is old enough, and says so in the log."""
    async with database.engine() as connection:
        days = (await retention.read_retention(connection)).audit_days
        month = None if days is None else await audit.drop_old_month(connection, days, server)
    if month is not None:
        log.info("retention.dropped", audit=f"{month:%Y-%m}")


async def retain_graphs(database: Database, members: int, graphs: int) -> tuple[int, int]:
    """One round for graphs, which are deleted after their last task. Returns where the next round begins."""
    async with database.engine() as connection:
        if (await retention.read_retention(connection)).tasks_days is None:
            return 0, 0
        members = await retention.forget_members(connection, after=members)
        graphs = await retention.forget_graphs(connection, after=graphs)
    return members, graphs


async def retain_segments(database: Database, after: int) -> int:
    """One round for output in the object store. Returns where the next one begins."""
    async with database.engine() as connection:
        kept = await retention.read_retention(connection)
        return await forget_segments(connection, kept.logs_days, after=after)


async def run_audit_seals(database: Database) -> None:
    """Seals new rows of the audit log. Several server nodes may run it: one at a time does it."""
    begun = False
    while True:
        try:
            if not begun:  # a server that was away for long needs this month's partition before its first row
                async with database.engine() as connection:
                    await audit.make_months(connection)
                begun = True
            full = True
            while full:  # one batch for each transaction
                async with database.engine() as connection:
                    full = await audit_seals.seal_rows(connection) == audit_seals.MOST_ROWS
        except Problem as error:
            log.debug("audit_seals.put_off", error=error.detail)
        await asyncio.sleep(SEAL_SECONDS)


async def run_row_counts(database: Database) -> None:
    """Keeps the exact counts of rows cheap to read. Several server nodes may run it."""
    while True:
        await asyncio.sleep(COUNTS_SECONDS)
        try:
            async with database.engine() as connection:
                await cleaning.fold_row_counts(connection)
        except Problem as error:
            log.debug("row_counts.put_off", error=error.detail)


async def run_expiry(database: Database, tell: Callable[[Expired], None]) -> None:
    """Drops tasks at their start-by time. Several server nodes may run it: each task is dropped once."""
    while True:
        await asyncio.sleep(EXPIRY_SECONDS)
        try:
            full = True
            while full:  # one batch for each transaction
                async with database.engine() as connection:
                    expired = await expire_tasks(connection)
                if expired.tasks:
                    tell(expired)
                full = len(expired.tasks) >= MOST_AT_ONCE
        except Problem as error:
            log.debug("expiry.database_away", error=error.detail)
        except asyncpg.TransactionRollbackError as error:  # a deadlock with a settlement: nothing was dropped
            log.debug("expiry.rolled_back", error=repr(error))
