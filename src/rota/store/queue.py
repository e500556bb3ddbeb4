"""The queue for the pool's leader: loads tasks that may start, authorises starts, finds running attempts.

Every function takes the connection; the leader owns two fenced ones. Rows become `ReadyTask`s here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec

from rota.model.clock import from_us, to_us
from rota.model.queue import AuthorisedAttempt, OrderKey, ReadyTask
from rota.model.task import Kind, Lane, State
from rota.store.database import AnyConnection
from rota.store.statements import columns, sql


@dataclass(frozen=True, slots=True)
class Fence:
    """The term of a leader. A statement that carries it changes nothing after another leader has taken over."""

    pool: int
    epoch: int
    holder: UUID
    rules: int = -1  # the version of the operators' rules that its starts were planned by


class StartRequest(msgspec.Struct, frozen=True, gc=False):
    task: int
    version: int
    node: int
    boot: int
    grace_ms: int


class Started(msgspec.Struct, frozen=True, gc=False):
    """The data of a started task that its leader does not hold in memory."""

    task: int
    attempt: int
    kind: Kind
    name: str
    spec: str
    idempotency_key: str | None
    after: list[int] | None = None  # the tasks it depended on


def ready_task(row: asyncpg.Record) -> ReadyTask:
    """A queue row for the core. A ready row whose timer has run out is urgent."""
    urgent = row["state"] == State.READY and row["due"]
    return ReadyTask(
        row["id"],
        row["version"],
        row["tenant"],
        Lane.URGENT if urgent else row["lane"],
        row["urgency"],
        to_us(row["start_by"]),
        row["cap_ms"],
        row["shape"],
        row["work"],
        row["concurrency_key"],
        row["concurrency_limit"] or 1,
        row["preemptible"],
        row["avoid_node"],
        row["concurrency_global"],
        row["leeway_ms"],
    )


async def start_attempts(connection: AnyConnection, fence: Fence, requests: Sequence[StartRequest]) -> list[Started]:
    """Authorises the starts whose task is unchanged, and returns only these. Durable on return.

    None is authorised of what is paused or drained, and none at all if the operators' rules have changed.
    """
    rows = await connection.fetch(
        sql("queue/start_attempts"),
        fence.pool,
        fence.epoch,
        fence.holder,
        *columns(requests, "task", "version", "node", "boot", "grace_ms"),
        fence.rules,
    )
    return [_started(row) for row in rows]


async def find_started(connection: AnyConnection, fence: Fence, requests: Sequence[StartRequest]) -> list[Started]:
    """After a lost reply: the starts that were authorised."""
    rows = await connection.fetch(
        sql("queue/find_started"), fence.epoch, *columns(requests, "task", "version", "node", "boot")
    )
    return [_started(row) for row in rows]


_KINDS = {kind.value: kind for kind in Kind}  # a lookup costs a tenth of Kind(…)


def _started(row: asyncpg.Record) -> Started:
    return Started(row[0], row[1], _KINDS[row[2]], row[3], row[4], row[5], row[6])


@dataclass(frozen=True, slots=True)
class Wanted:
    """The next rows of one tenant, past a cursor that begins with a rank."""

    tenant: int
    cursor: OrderKey
    amount: int


async def load_ready(
    connection: AnyConnection, pool: int, wanted: Sequence[Wanted], ranks: Mapping[int, int]
) -> list[ReadyTask]:
    """`ranks`: of every lane; a cursor begins with one of them."""
    cursor_ranks, urgencies, start_bys, caps, ids = columns([each.cursor for each in wanted], *range(5))
    rows = await connection.fetch(
        sql("queue/load_ready"),
        pool,
        *columns(wanted, "tenant"),
        cursor_ranks,
        urgencies,
        list(map(from_us, start_bys)),
        caps,
        ids,
        *columns(wanted, "amount"),
        sorted(set(ranks.values())),
        list(ranks),
        list(ranks.values()),
    )
    return [ready_task(row) for row in rows]


async def load_due(
    connection: AnyConnection, pool: int, tenants: Sequence[int], since: Sequence[datetime], amount: int
) -> list[tuple[ReadyTask, bool]]:
    """Tasks whose timer has run out, at most `amount` for each tenant; and whether its promotion is still untold."""
    rows = await connection.fetch(sql("queue/load_due"), pool, tenants, since, amount)
    return [(ready_task(row), row["state"] == State.READY and not row["promotion_told"]) for row in rows]


async def next_timers(connection: AnyConnection, pool: int, tenants: Sequence[int]) -> dict[int, float]:
    rows = await connection.fetch(sql("queue/next_timers"), pool, tenants)
    return {row["tenant"]: row["seconds"] for row in rows if row["seconds"] is not None}


@dataclass(frozen=True, slots=True)
class ActiveTenant:
    id: int
    weight: int
    cpu_milli_limit: int | None
    memory_bytes_limit: int | None
    running_limit: int | None
    urgent_percent: int
    paused: bool
    longest_cap_seconds: int


async def active_tenants(connection: AnyConnection, pool: int, also: Sequence[int] = ()) -> list[ActiveTenant]:
    """Tenants with live tasks in the pool, and the tenants `also`."""
    return [ActiveTenant(*row) for row in await connection.fetch(sql("queue/active_tenants"), pool, also)]


async def count_running(connection: AnyConnection, pool: int, *, tenant: int | None, node: int | None) -> int:
    return int(await connection.fetchval(sql("queue/count_running"), pool, tenant, node))


async def load_running(connection: AnyConnection, pool: int) -> list[AuthorisedAttempt]:
    rows = await connection.fetch(sql("queue/load_running"), pool)
    return [
        AuthorisedAttempt(
            row["id"],
            row["attempt"],
            row["tenant"],
            row["shape"],
            row["node"],
            row["boot"],
            row["grace_ms"],
            row["work"],
            row["concurrency_key"],
            row["concurrency_limit"] or 1,
            row["cancel_requested"],
            row["lane"],
            row["cap_ms"],
            row["preemptible"],
            0 if row["started_at"] is None else to_us(row["started_at"]),
            row["concurrency_global"],
        )
        for row in rows
    ]


async def load_stopping(connection: AnyConnection, pool: int) -> list[tuple[int, int, bool]]:
    """Running attempts that their owners stop: (task, attempt, whether it is a cancellation)."""
    rows = await connection.fetch(sql("queue/load_stopping"), pool)
    return [(row["id"], row["attempt"], row["cancels"]) for row in rows]


async def dependents_to_release(connection: AnyConnection, pool: int, *, after: int, limit: int) -> list[int]:
    return [row[0] for row in await connection.fetch(sql("queue/dependents_to_release"), pool, after, limit)]


async def vacuum_queue(connection: AnyConnection) -> None:
    await connection.execute(sql("queue/vacuum_queue"))
