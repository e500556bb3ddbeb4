"""The bytes that a tenant stores are counted as objects come and go, and the limit of its plan holds."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from uuid import uuid4

import pytest

from rota.store import artifacts
from rota.store.artifacts import NewObject, StorageFull
from rota.store.database import AnyConnection
from rota.store.statements import sql
from tests.store.rows import Rows, add_tenant

ENDED = 2**40  # a task that is not in the queue
SUMMED = """select coalesce((select sum(size_bytes) from artifacts where tenant = $1), 0)
    + coalesce((select sum(size_bytes) from attempt_objects where tenant = $1 and object_key is not null), 0)"""


async def announced(connection: AnyConnection, tenant: int, content: bytes, *, limit: int | None = None) -> NewObject:
    key = uuid4().hex
    await artifacts.announce(connection, key, within=timedelta(hours=1))
    return NewObject(
        tenant=tenant,
        sha256=hashlib.sha256(content).digest(),
        size_bytes=len(content),
        object_key=key,
        name="",
        created_by="u",
        kept_for=timedelta(0),
        storage_bytes=limit,
    )


async def checkpoint(connection: AnyConnection, new: NewObject, *, task: int, attempt: int = 1) -> None:
    async with connection.transaction():
        await artifacts.lock_attempt_objects(connection, task)
        await artifacts.keep_for_attempt(
            connection, new, task=task, attempt=attempt, purpose="checkpoint", artifact=False
        )


async def used(rows: Rows, tenant: int) -> int:
    counted = await artifacts.storage_used(rows.connection, tenant)
    assert counted == await rows.connection.fetchval(SUMMED, tenant)
    return counted


async def test_the_count_follows_every_object_that_comes_is_replaced_and_goes(rows: Rows) -> None:
    connection, tenant = rows.connection, await add_tenant(rows.connection)
    other = await add_tenant(rows.connection)
    assert await used(rows, tenant) == 0
    for owner in (tenant, tenant, other):  # the same bytes again are not stored again
        await artifacts.keep(connection, await announced(connection, owner, bytes(100)))
    assert (await used(rows, tenant), await used(rows, other)) == (100, 100)
    await checkpoint(connection, await announced(connection, tenant, bytes(30)), task=ENDED)
    await checkpoint(connection, await announced(connection, tenant, bytes(50)), task=ENDED)  # replaces it
    await checkpoint(connection, await announced(connection, tenant, bytes(7)), task=ENDED, attempt=2)
    assert await used(rows, tenant) == 157
    await artifacts.drop_older(connection, task=ENDED, purpose="checkpoint", keeping=1)
    assert await used(rows, tenant) == 107
    await artifacts.expire_attempt_objects(connection, kept_for=None, at_most=10_000)
    assert await used(rows, tenant) == 100
    await artifacts.expire_artifacts(connection, at_most=10_000)
    assert (await used(rows, tenant), await used(rows, other)) == (0, 0)


async def test_objects_that_come_together_do_not_exceed_the_limit_together(rows: Rows) -> None:
    tenant = await add_tenant(rows.connection)
    connections = [await rows.another_connection() for _ in range(4)]

    async def store(connection: AnyConnection, number: int) -> bool:
        new = await announced(connection, tenant, bytes([number]) * 100, limit=250)
        try:
            if number % 2:
                await checkpoint(connection, new, task=number)
            else:
                async with connection.transaction():
                    await artifacts.keep(connection, new)
        except StorageFull as full:
            assert full.used_bytes == 200
            return False
        return True

    stored = await asyncio.gather(*(store(connection, number) for number, connection in enumerate(connections)))
    assert (sum(stored), await used(rows, tenant)) == (2, 200)
    for connection in connections:
        await connection.close()


async def test_bytes_that_are_an_artifact_already_are_free_as_that_artifact_only(rows: Rows) -> None:
    connection, tenant = rows.connection, await add_tenant(rows.connection)
    await artifacts.keep(connection, await announced(connection, tenant, bytes(90), limit=100))
    _, fresh = await artifacts.keep(connection, await announced(connection, tenant, bytes(90), limit=100))
    assert not fresh
    with pytest.raises(StorageFull):
        await checkpoint(connection, await announced(connection, tenant, bytes(90), limit=100), task=2)
    assert await used(rows, tenant) == 90


async def test_reading_the_bytes_in_use_costs_the_same_however_many_objects_there_are(rows: Rows) -> None:
    plan = await rows.connection.fetch(f"explain {sql('artifacts/storage_used').replace('$1', '1')}")
    assert "artifacts" not in "\n".join(row[0] for row in plan)
