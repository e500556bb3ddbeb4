"""The log of events: rows written by the statements that change tasks, read in an order that never changes.

A reader that follows its cursor sees every event of a tenant once: only rows below the oldest open transaction are
read, where no row can appear any more. The details are read from `tasks` and `attempts`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import msgspec

from rota.model.attempt import Outcome
from rota.model.event import ENDS, LIMITS, SINGLE, Change, Event, EventCursor, EventType, Kind, kinds_of
from rota.model.stage import StageDone
from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.statements import sql

ROWS_A_READ = 50  # a row names up to 2,000 tasks
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
MOST_LATE = 1_000
_SLOTS = 2  # a task of a row becomes at most two events

FAILED = frozenset(
    {Outcome.ERROR, Outcome.TIMEOUT, Outcome.LOST, Outcome.REFUSED, Outcome.CRASHED, Outcome.BAD_RESULT, Outcome.RETRY}
)
_CHANGES = frozenset(
    {
        EventType.HELD,
        EventType.RELEASED,
        EventType.PAUSED,
        EventType.RESUMED,
        EventType.EDITED,
        EventType.EXTENDED,
    }
)
_WAITING = frozenset({EventType.LATE, EventType.PROMOTED, EventType.SUBMITTED})  # about no attempt
FINAL = {
    State.DONE: EventType.DONE,
    State.FAILED: EventType.DEAD_LETTERED,
    State.CANCELLED: EventType.CANCELLED,
    State.SKIPPED: EventType.SKIPPED,
    State.EXPIRED: EventType.EXPIRED,
}


class Skip(msgspec.Struct, frozen=True):
    """The details of a skipped instant in its row of the log."""

    schedule: str
    instant: datetime
    reason: str
    until: datetime | None = None


class Read(msgspec.Struct, frozen=True):
    """Events in order, the cursor after the last row, and whether there may be more."""

    events: list[Event]
    cursor: EventCursor
    full: bool


async def newest_cursor(connection: AnyConnection) -> EventCursor:
    """The cursor behind everything that is committed now."""
    return EventCursor(await connection.fetchval(sql("events/newest_cursor")))


async def read_events(
    connection: AnyConnection,
    tenant: int,
    after: EventCursor,
    *,
    since: datetime = LONG_AGO,
    task: int | None = None,
    types: Collection[EventType] | None = None,
) -> Read:
    """The events after a cursor. `task`: only of this task. `types`: rows that have none of them are not read."""
    horizon = await newest_cursor(connection)  # before the rows, so that none committed in between is missed
    kinds = None if types is None else kinds_of(types)
    rows = await connection.fetch(sql("events/read_events"), tenant, after.xid, after.row, ROWS_A_READ, since, kinds)
    events: list[Event] = []
    for row in rows:
        found = _skips(row) if row["kind"] == Kind.SCHEDULE_SKIPPED else await _of_tasks(connection, tenant, row, task)
        events += [event for event in found if event.cursor > after]
    full = len(rows) == ROWS_A_READ
    if full:
        return Read(events, _end(rows[-1]), full)
    return Read(events, max([after, horizon, *map(_end, rows[-1:])]), full)


def _end(row: asyncpg.Record) -> EventCursor:
    return EventCursor(row["xid"], row["id"], len(_tasks(row)) * _SLOTS)


def _tasks(row: asyncpg.Record) -> list[int]:
    tasks: list[int] = row["tasks"]
    if row["kind"] != Kind.SUBMITTED:
        return tasks
    runs = zip(tasks[::2], tasks[1::2], strict=True)
    return [task for first, last in runs for task in range(first, last + 1)]


def _skips(row: asyncpg.Record) -> list[Event]:
    skip = msgspec.json.decode(row["details"], type=Skip)
    return [
        Event(
            cursor=EventCursor(row["xid"], row["id"], 1),
            type=EventType.SCHEDULE_SKIPPED,
            at=row["at"],
            schedule=skip.schedule,
            scheduled_for=skip.instant,
            until=skip.until,
            reason=skip.reason,
        )
    ]


async def _of_tasks(connection: AnyConnection, tenant: int, row: asyncpg.Record, only: int | None) -> list[Event]:
    tasks = _tasks(row)
    numbers: list[int] = row["numbers"] or [0] * len(tasks)
    if only is not None and only not in tasks:
        return []
    found = await connection.fetch(sql("events/read_event_tasks"), tasks, numbers, min(tasks), max(tasks), tenant)
    events = []
    for one in found:
        first = (one["position"] - 1) * _SLOTS + 1
        for slot, kind in enumerate(_types(Kind(row["kind"]), one)):
            if kind is not None:
                events.append(_event(EventCursor(row["xid"], row["id"], first + slot), kind, row, one))
    return events


def _types(kind: Kind, one: asyncpg.Record) -> tuple[EventType | None, EventType | None]:
    if kind in SINGLE:
        return SINGLE[kind], None
    late = EventType.LATE if one["tolerance_given"] else None
    if kind is Kind.STARTED_LATE:
        return late, EventType.STARTED
    if kind is Kind.LATE:
        return late, None
    if one["state"] is None:  # removed by retention
        return None, None
    final = FINAL[State(one["state"])] if one["state"] else None
    failed = one["outcome"] in FAILED and final not in (EventType.DONE, EventType.CANCELLED)
    return EventType.FAILED if failed else None, final


def _event(cursor: EventCursor, kind: EventType, row: asyncpg.Record, one: asyncpg.Record) -> Event:
    ended = kind in ENDS
    change = _change(kind, row, one)
    failure: dict[str, Any] = msgspec.json.decode(one["failure"]) if ended and one["failure"] else {}
    return Event(
        cursor=cursor,
        type=kind,
        at=row["at"],
        task=one["task"],
        name=one["name"],
        attempt=None if kind in _WAITING else one["number"] or None,
        node=None if kind in _WAITING else one["node"],
        state=State(one["state"]).label if ended and one["state"] else None,
        outcome=Outcome(one["outcome"]).label if ended else None,
        limit=LIMITS.get(failure.get("type", "")),
        exit_code=one["exit_code"] if ended else None,
        reason=(one["reason"] or _sentence(failure)) if ended else change.reason,
        retry_after=failure.get("retry_after"),
        stage=msgspec.json.decode(row["details"], type=StageDone) if kind is EventType.STAGE_DONE else None,
        user=change.user,
        changes=change.changes,
        schedule=one["schedule"],
        scheduled_for=one["scheduled_for"],
        tags=msgspec.json.decode(one["tags"]) if one["tags"] else {},
    )


def _change(kind: EventType, row: asyncpg.Record, one: asyncpg.Record) -> Change:
    if kind is EventType.SUBMITTED:
        return Change(user=one["user_name"])
    return msgspec.json.decode(row["details"], type=Change) if kind in _CHANGES else Change()


def _sentence(failure: dict[str, Any]) -> str | None:
    return f"{failure['type']}: {failure['message']}" if failure else None


async def tenants_with_news(connection: AnyConnection, tenants: Sequence[int], since: int) -> list[int]:
    """The tenants with rows of transactions from `since` on. One query for all listeners of a node."""
    rows = await connection.fetch(sql("events/tenants_with_news"), tenants, since)
    return [row["tenant"] for row in rows]


async def record_late(connection: AnyConnection) -> int:
    """Writes one event for each task that has never run and whose start-by time has passed; at most MOST_LATE.

    Returns their number. A task that is dropped at that time has the event of its end instead.
    """
    late: int = await connection.fetchval(sql("events/record_late"), MOST_LATE)
    return late


async def record_promoted(connection: AnyConnection, tasks: Sequence[int]) -> None:
    """Writes one event for each of these tasks that has become urgent and is not told of."""
    await connection.execute(sql("events/record_promoted"), tasks)


async def make_partitions(connection: AnyConnection) -> None:
    """Makes the partitions of today and the next two days."""
    await connection.execute(sql("events/make_partitions"))
