"""The audit log: rows are inserted by the transaction of what they tell of, and never changed.

It is read here too, and whole months of it are dropped once all of one is old.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import asyncpg
import msgspec
import structlog

from rota.model.audit import Entry, Outcome
from rota.store.audit_seals import Drop, last_drop
from rota.store.database import AnyConnection
from rota.store.retention import PUT_OFF
from rota.store.statements import sql

log = structlog.get_logger()

MOST_EXAMINED = 10_000  # rows of an index for one page
MOST_HISTORY = 50  # changes of a task that its page shows
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(9999, 1, 1, tzinfo=UTC)
LARGEST_ID = 2**63 - 1
_NUL = "\\u0000"  # PostgreSQL has none in text


def json_of(entries: Sequence[Entry]) -> str:
    """The argument of the statements that write entries."""
    text = msgspec.json.encode(entries).decode()
    return text.replace(_NUL, "\\ufffd") if _NUL in text else text


async def record(connection: AnyConnection, *entries: Entry) -> list[int]:
    """Writes entries, in the transaction of what they tell of. Returns their ids."""
    return [row["id"] for row in await connection.fetch(sql("audit/record"), json_of(entries))]


async def link_tasks(connection: AnyConnection, tasks: Sequence[int], row: int) -> None:
    """In the transaction of the change: each of these tasks shows the row that tells of it."""
    await connection.execute(sql("audit/link_tasks"), tasks, row)


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """None: whatever it is."""

    since: datetime | None = None
    until: datetime | None = None
    tenant: int | None = None
    actor: str | None = None
    action: str | None = None  # how it begins
    object_kind: str | None = None
    object_id: str | None = None
    outcome: Outcome | None = None
    credential: str | None = None
    address: str | None = None  # or a network

    @property
    def index(self) -> str:
        """The condition that leaves fewest rows has the index."""
        if self.object_kind is not None and self.object_id is not None:
            return "by_object"
        if self.actor is not None:
            return "by_actor"
        return "by_time" if self.tenant is None else "by_tenant"

    def examined(self, limit: int) -> int:
        """How many rows that an index finds are looked at for a page."""
        others = (self.action, self.outcome, self.credential, self.address)
        return limit if others == (None,) * len(others) else MOST_EXAMINED


@dataclass(frozen=True, slots=True)
class AuditPage:
    rows: list[asyncpg.Record]
    next: int | None  # the id that the next page comes after


async def list_newest(
    connection: AnyConnection, wanted: AuditFilter, *, before: tuple[datetime, int] | None, limit: int
) -> AuditPage:
    """One page, newest first. `before`: the time and the id of the row that it comes after."""
    examined = wanted.examined(limit)
    at, number = before or (wanted.until or FAR_AHEAD, 0)
    rows = await connection.fetch(
        sql("audit/list_newest", chosen=wanted.index),
        examined,
        at,
        number,
        wanted.since or LONG_AGO,
        *_conditions(wanted),
        limit,
    )
    return _page(rows, limit, examined)


async def all_oldest(
    connection: AnyConnection, wanted: AuditFilter, *, after: tuple[datetime, int], limit: int
) -> AuditPage:
    """As `list_newest`, the other way round."""
    examined = wanted.examined(limit)
    rows = await connection.fetch(
        sql("audit/list_oldest", chosen=wanted.index),
        examined,
        *after,
        wanted.until or FAR_AHEAD,
        *_conditions(wanted),
        limit,
    )
    return _page(rows, limit, examined)


def _conditions(wanted: AuditFilter) -> tuple[object, ...]:
    return (
        wanted.tenant,
        wanted.actor,
        wanted.object_kind,
        wanted.object_id,
        wanted.action,
        wanted.outcome,
        wanted.credential,
        wanted.address,
    )


def _page(rows: list[asyncpg.Record], limit: int, examined: int) -> AuditPage:
    found = [row for row in rows if row["id"] is not None]
    if len(found) == limit:
        return AuditPage(found, found[-1]["id"])
    return AuditPage(found, rows[0]["last_id"] if rows and rows[0]["examined"] == examined else None)


async def place_of(connection: AnyConnection, number: int, tenant: int | None) -> tuple[datetime, int] | None:
    """The time and the id of a row, for what comes after it. None: it is not kept any more, or not of the tenant."""
    at: datetime | None = await connection.fetchval(sql("audit/time_of"), number, tenant)
    return None if at is None else (at, number)


async def read_entry(connection: AnyConnection, number: int, tenant: int | None) -> asyncpg.Record | None:
    """`tenant`: only if it is a row of this tenant."""
    return await connection.fetchrow(sql("audit/read_entry"), number, tenant)


async def task_history(connection: AnyConnection, task: int, tenant: int, made_at: datetime) -> list[asyncpg.Record]:
    """What people did to a task, newest first."""
    return await connection.fetch(sql("audit/task_history"), task, made_at, tenant, MOST_HISTORY)


# ---- months ---------------------------------------------------------------------------------------------------------


async def make_months(connection: AnyConnection) -> None:
    """The partitions of this month and the next two. A month whose rows are in the default partition stays there."""
    for row in await connection.fetch(sql("audit/months_to_make")):
        try:
            await connection.execute(sql("audit/make_months"), row["month"])
        except asyncpg.CheckViolationError as error:
            log.warning("audit.month_not_made", month=str(row["month"]), error=str(error))


async def drop_old_month(connection: AnyConnection, days: int, server: str) -> date | None:
    """Drops the oldest month with its seals, if all of it is older, and says so in the log itself."""
    try:
        async with connection.transaction():
            await connection.execute("set local lock_timeout = '500ms'")
            if not await connection.fetchval(sql("audit/try_drop_lock")):
                return None
            row = await connection.fetchrow(sql("audit/old_month"), days)
            if row is None:
                return None
            first: date = row["first"]
            before = await last_drop(connection)
            ends = before if row["number"] is None else Drop(str(first), row["number"], row["hash"].hex())
            await connection.execute(sql("audit/drop_month"), first)
            await record(connection, _dropped(first, ends, days, server))
    except PUT_OFF:
        return None
    return first


def _dropped(first: date, ends: Drop | None, days: int, server: str) -> Entry:
    return Entry(
        action="audit.drop",
        object_kind="audit",
        object_id=f"{first:%Y-%m}",
        actor_kind="system",
        actor="retention",
        reason=f"older than {days} days",
        before=None if ends is None else {"seal": ends.number, "hash": ends.hash},
        server=server,
    )
