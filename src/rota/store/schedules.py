"""Schedules and their occurrences as rows: owners save schedules, the ticker moves their cursors.

A caller that writes occurrences or moves a cursor holds the lock of the schedule's row, which serialises the ticker,
manual runs, backfills and edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import asyncpg

from rota.model.accounts.permissions import Role
from rota.model.schedule.schedule import Missed, Overlap, Rule, RuleKind, Schedule, Trigger
from rota.model.tenant import MEMBER_SCOPES, Caller
from rota.store.database import AnyConnection
from rota.store.statements import columns, sql
from rota.store.tenants import plan_of

TICKER_POOL = 0  # leases are kept by pool; pools count from 1


def schedule_of(row: asyncpg.Record) -> Schedule:
    return Schedule(
        id=row["id"],
        tenant=row["tenant"],
        name=row["name"],
        user=row["user_name"],
        rule=Rule(RuleKind(row["rule_kind"]), row["rule_text"], row["zone"], row["anchor"]),
        request=row["request"],
        missed=Missed(row["missed"]),
        missed_limit=row["missed_limit"],
        overlap=Overlap(row["overlap"]),
        jitter_ms=row["jitter_ms"],
        at_most=row["at_most"],
        ends_at=row["ends_at"],
        max_runs=row["max_runs"],
        runs=row["runs"],
        paused=row["paused"],
        next_at=row["next_at"],
        moved_from=row["moved_from"],
        previous_at=row["previous_at"],
        last_tasks=tuple(row["last_tasks"]),
        last_graph=row["last_graph"],
        artifacts=tuple(row["artifacts"] or ()),
        version=row["version"],
        created_at=row["created_at"],
        changed_at=row["changed_at"],
    )


def _owner_values(one: Schedule) -> tuple[object, ...]:
    rule = one.rule
    return (
        one.user,
        rule.kind.value,
        rule.text,
        rule.zone,
        rule.anchor,
        one.request,
        one.missed.value,
        one.missed_limit,
        one.overlap.value,
        one.jitter_ms,
        one.at_most,
        one.ends_at,
        one.max_runs,
        one.paused,
        one.next_at,
        one.moved_from,
        one.previous_at,
        list(one.artifacts) or None,
    )


async def insert_schedule(connection: AnyConnection, one: Schedule) -> Schedule | None:
    """None: the tenant has a schedule of this name."""
    row = await connection.fetchrow(sql("schedules/insert_schedule"), one.tenant, one.name, *_owner_values(one))
    return None if row is None else schedule_of(row)


async def save_schedule(connection: AnyConnection, one: Schedule) -> Schedule:
    """Writes the schedule, whose row the caller has locked; the version rises."""
    row = await connection.fetchrow(sql("schedules/save_schedule"), one.id, one.tenant, *_owner_values(one))
    assert row is not None, "the editor holds the row"
    return schedule_of(row)


async def read_schedule(connection: AnyConnection, tenant: int, name: str, *, lock: bool = False) -> Schedule | None:
    row = await connection.fetchrow(sql("schedules/lock_schedule" if lock else "schedules/read_schedule"), tenant, name)
    return None if row is None else schedule_of(row)


async def list_schedules(connection: AnyConnection, tenant: int, *, after: str, limit: int) -> list[Schedule]:
    rows = await connection.fetch(sql("schedules/list_schedules"), tenant, after, limit)
    return [schedule_of(row) for row in rows]


async def delete_schedule(connection: AnyConnection, one: Schedule) -> None:
    """Deletes the schedule. Its tasks stay; its history is deleted by `delete_history`."""
    await connection.execute(sql("schedules/delete_schedule"), one.id)


async def delete_history(connection: AnyConnection, schedule: int, *, limit: int) -> int:
    """Deletes at most `limit` occurrences, because there may be millions. Returns the number."""
    gone = await connection.fetch(sql("schedules/delete_history"), schedule, limit)
    return len(gone)


# ---- what happened ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Occurrence:
    schedule: int
    instant: datetime
    tenant: int
    trigger: Trigger
    tasks: tuple[int, ...] | None  # None: skipped
    reason: str | None = None
    until: datetime | None = None
    at: datetime | None = None
    graph: int | None = None  # the graph of the tasks, unless the run is one task


async def insert_runs(connection: AnyConnection, runs: Sequence[Occurrence]) -> set[tuple[int, datetime]]:
    """(schedule, instant) of the new runs; the others exist already."""
    rows = await connection.fetch(
        sql("schedules/insert_occurrences"),
        *columns(runs, "schedule", "instant", "tenant", "trigger"),
        [",".join(map(str, run.tasks or ())) for run in runs],
        *columns(runs, "graph"),
    )
    return {(row["schedule"], row["instant"]) for row in rows}


async def insert_skips(connection: AnyConnection, skips: Sequence[Occurrence]) -> None:
    await connection.execute(
        sql("schedules/insert_skips"), *columns(skips, "schedule", "instant", "tenant", "trigger", "reason", "until")
    )


async def list_occurrences(
    connection: AnyConnection, schedule: int, *, before: datetime, limit: int
) -> list[Occurrence]:
    """Newest first."""
    rows = await connection.fetch(sql("schedules/list_occurrences"), schedule, before, limit)
    return [
        Occurrence(row[0], row[1], row[2], Trigger(row[3]), None if row[4] is None else tuple(row[4]), *row[5:])
        for row in rows
    ]


# ---- the ticker ------------------------------------------------------------------------------------------------


DueCursor = tuple[datetime, int]  # (next_at, id) of the last schedule of a batch
HEAD: DueCursor = (datetime(1970, 1, 1, tzinfo=UTC), 0)


async def lock_due(connection: AnyConnection, limit: int, *, after: DueCursor) -> list[Schedule]:
    return [schedule_of(row) for row in await connection.fetch(sql("schedules/lock_due_schedules"), limit, *after)]


async def transaction_time(connection: AnyConnection) -> datetime:
    now: datetime = await connection.fetchval(sql("schedules/transaction_time"))
    return now


async def count_due(connection: AnyConnection, tenants: Iterable[int]) -> dict[int, int]:
    """How many schedules of each tenant are due in this transaction."""
    rows = await connection.fetch(sql("schedules/count_due"), list(tenants))
    return {row["tenant"]: row["due"] for row in rows}


async def seconds_to_next(connection: AnyConnection) -> float | None:
    """Seconds until the next cursor is due, by the database's clock."""
    seconds = await connection.fetchval(sql("schedules/seconds_to_next"))
    return None if seconds is None else float(seconds)


@dataclass(frozen=True, slots=True)
class Cursor:
    schedule: int
    next_at: datetime | None
    previous_at: datetime | None
    runs: int
    last_tasks: tuple[int, ...] | None  # None: no new run
    last_graph: int | None = None


async def move_cursors(connection: AnyConnection, cursors: Sequence[Cursor]) -> None:
    await connection.execute(
        sql("schedules/move_cursors"),
        *columns(cursors, "schedule", "next_at", "previous_at", "runs"),
        [None if cursor.last_tasks is None else ",".join(map(str, cursor.last_tasks)) for cursor in cursors],
        *columns(cursors, "last_graph"),
    )


async def count_manual_run(connection: AnyConnection, runs: Sequence[Occurrence]) -> None:
    """Counts runs that did not come from the cursor, which stays where it is."""
    last = runs[-1]
    await connection.execute(
        sql("schedules/count_manual_run"), last.schedule, len(runs), list(last.tasks or ()), last.graph
    )


async def live_among(connection: AnyConnection, tasks: Sequence[int]) -> set[int]:
    rows = await connection.fetch(sql("schedules/live_among"), sorted(tasks))
    return {row["id"] for row in rows}


async def live_in_graphs(connection: AnyConnection, graphs: Sequence[int]) -> dict[int, list[int]]:
    """Graph → its live members, with later joins and retries."""
    rows = await connection.fetch(sql("schedules/live_in_graphs"), sorted(graphs))
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row["graph"], []).append(row["task"])
    return found


async def read_owners(connection: AnyConnection, tenants: Iterable[int]) -> dict[int, Caller]:
    """The tenants as callers, so that the limits of their plans hold for scheduled tasks."""
    rows = await connection.fetch(sql("schedules/read_owners"), sorted(set(tenants)))
    return {
        row["tenant_id"]: Caller(
            tenant_id=row["tenant_id"],
            tenant=row["tenant_name"],
            user="",
            scopes=MEMBER_SCOPES,
            role=Role.MEMBER,
            plan=plan_of(row),
            trusted=row["trusted"],
        )
        for row in rows
    }


def owned_by(caller: Caller, user: str) -> Caller:
    return replace(caller, user=user)
