"""Concurrency keys: the places of keys counted across pools, and cool-downs.

A place is a row that exists exactly as long as the task's queue row says running: a start inserts it and a settlement
deletes it in the same transaction. So a count of the rows is right whichever node leads and whatever reply was lost.
Keys are locked in order before they are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg
import msgspec

from rota.model.clock import to_us
from rota.store.database import AnyConnection
from rota.store.queue import Fence, Started, StartRequest, start_attempts
from rota.store.statements import columns, sql

KeyName = tuple[int, str]  # tenant, name


class PlaceRequest(msgspec.Struct, frozen=True, gc=False):
    """A start that needs a place of its concurrency key."""

    start: StartRequest
    tenant: int
    key: str
    limit: int


@dataclass(frozen=True, slots=True)
class Freed:
    keys: list[KeyName]
    pools: set[int]  # other pools that wait for a place


async def start_with_places(
    connection: AnyConnection, fence: Fence, requests: Sequence[PlaceRequest]
) -> tuple[list[Started], set[int]]:
    """Authorises the starts for which a place is free. Also returns the tasks without one. Durable on return."""
    keys = sorted({(request.tenant, request.key) for request in requests})
    async with connection.transaction():
        await connection.execute(sql("concurrency_keys/lock_keys"), *columns(keys, 0, 1))
        rows = await connection.fetch(
            sql("concurrency_keys/take_places"), fence.pool, *columns(requests, "start.task", "tenant", "key", "limit")
        )
        taken = {row["task"] for row in rows}
        starts = [request.start for request in requests if request.start.task in taken]
        started = await start_attempts(connection, fence, starts) if starts else []
        unused = sorted(taken - {row.task for row in started})
        if unused:  # the task was edited meanwhile, or the fence or the rules refused
            await give_back(connection, fence.pool, unused)
    return started, {request.start.task for request in requests} - taken


async def give_back(connection: AnyConnection, pool: int, tasks: Collection[int]) -> Freed:
    """Deletes the tasks' places, in the transaction that ends their attempts."""
    rows = await connection.fetch(sql("concurrency_keys/give_places_back"), sorted(tasks), pool)
    return Freed([(row["tenant"], row["key"]) for row in rows], {pool for row in rows for pool in row["pools"]})


async def watch_keys(connection: AnyConnection, pool: int, keys: Sequence[KeyName]) -> dict[KeyName, int]:
    """For keys this pool waits for: how many places other pools hold or are served first with."""
    rows = await connection.fetch(sql("concurrency_keys/watch_keys"), pool, *columns(keys, 0, 1))
    return {(row["tenant"], row["key"]): row["elsewhere"] for row in rows}


async def cool_key(connection: AnyConnection, tenant: int, key: str, milliseconds: int) -> datetime | None:
    """No task with the key starts in any pool before the returned time. None: 0 ms, which ends a cool-down."""
    until: datetime | None = await connection.fetchval(
        sql("concurrency_keys/cool_key"), tenant, key, float(milliseconds)
    )
    return until


async def read_cooled(connection: AnyConnection) -> dict[KeyName, int]:
    """All keys that are cooled down now, and until when (µs)."""
    rows = await connection.fetch(sql("concurrency_keys/read_cooled"))
    return {(row["tenant"], row["key"]): to_us(row["cooled_until"]) for row in rows}


async def list_keys(connection: AnyConnection, tenant: int, *, limit: int) -> list[asyncpg.Record]:
    return list(await connection.fetch(sql("concurrency_keys/list_keys"), tenant, limit))


async def sweep_places(connection: AnyConnection, pool: int) -> list[int]:
    """Deletes places without a running task. Returns their tasks."""
    return [row["task"] for row in await connection.fetch(sql("concurrency_keys/sweep_places"), pool)]
