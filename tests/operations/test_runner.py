"""The loop that works on operations: a bug ends the operation that met it, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from rota.model.request.operation import BY_DEFAULT, OperationState, Selection, Verb
from rota.operations.batch import Batch, Batches
from rota.operations.runner import Operations
from rota.store import operations
from rota.store.database import AnyConnection
from rota.store.operations import NewOperation, Operation, Progress
from rota.store.selection import Count
from tests.harness.postgres import TestPostgres
from tests.store.rows import Rows


@pytest.fixture
async def rows(postgres: TestPostgres) -> AsyncIterator[Rows]:
    opened = await Rows.open(await postgres.create_async())
    yield opened
    await opened.close()


async def start(rows: Rows, verb: Verb) -> Operation:
    selection = Selection(states=BY_DEFAULT[verb], until=datetime.now(UTC) + timedelta(days=1))
    new = NewOperation(
        tenant=rows.tenant, user="ann", verb=verb, where={}, selection=selection, changes={}, edit=None,
        counted=Count(0, False, {}, []),
    )  # fmt: skip
    made = await operations.insert_operation(rows.connection, new)
    assert made is not None
    return made


class HoldsAreBroken(Batches):
    def __init__(self) -> None:
        pass

    async def make(self, connection: AnyConnection, operation: Operation, examine: int) -> Batch:
        if operation.verb is Verb.HOLD:
            raise ZeroDivisionError("a bug")
        return Batch(operation, Progress(None, 0))


async def test_a_bug_fails_its_operation_and_the_loop_goes_on(rows: Rows) -> None:
    broken, sound = await start(rows, Verb.HOLD), await start(rows, Verb.CANCEL)
    told: list[int] = []
    runner = Operations(rows.database, HoldsAreBroken(), tell=lambda batch: told.append(batch.operation.id))
    loop = asyncio.create_task(runner.run())
    async with asyncio.timeout(30):
        while not told:
            runner.started()
            assert await runner.moved(1.0)
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    found = [await operations.read_operation(rows.connection, one.id, rows.tenant) for one in (broken, sound)]
    assert [None if one is None else one.state for one in found] == [OperationState.FAILED, OperationState.DONE]
    assert found[0] is not None
    assert found[0].trouble == "an error of the server; its log has the details"
    assert told == [sound.id]


async def test_whoever_waits_for_an_operation_is_let_go_when_the_node_stops(rows: Rows) -> None:
    runner = Operations(rows.database, HoldsAreBroken(), tell=lambda batch: None)
    runner.close()
    assert not await runner.moved(30.0)
