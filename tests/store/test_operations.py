"""Operations as rows: one node works on one at a time, a stop holds, old ones are forgotten; parts keep to indexes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rota.model.attempt import Outcome
from rota.model.request.operation import BY_DEFAULT, OperationState, Selection, Verb
from rota.model.task import State
from rota.settle.settlement import settle
from rota.store import operations, selection
from rota.store.operations import NewOperation, Operation, Progress
from rota.store.reading import NEWEST
from rota.store.selection import Count, read_part
from tests.harness.postgres import TestPostgres
from tests.store.plans.explained import Explained
from tests.store.rows import Rows

LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
async def rows(postgres: TestPostgres) -> AsyncIterator[Rows]:
    """A database of its own: the queue of operations is that of all tenants."""
    opened = await Rows.open(await postgres.create_async())
    yield opened
    await opened.close()


def wanted(verb: Verb, **filters: object) -> Selection:
    return Selection(states=BY_DEFAULT[verb], until=LATER, **filters)  # type: ignore[arg-type]


async def start(rows: Rows, verb: Verb = Verb.CANCEL, **more: object) -> Operation:
    new = NewOperation(
        tenant=rows.tenant, user="ann", verb=verb, where={"name": "work"}, selection=wanted(verb, name="work"),
        changes={}, edit=None, counted=Count(5, False, {}, []),
    )  # fmt: skip
    made = await operations.insert_operation(rows.connection, replace(new, **more))  # type: ignore[arg-type]
    assert made is not None
    return made


async def test_an_operation_that_one_node_works_on_is_left_alone_by_others(rows: Rows) -> None:
    first, second = await start(rows), await start(rows)
    other = await rows.another_connection()
    async with rows.connection.transaction():
        taken = await operations.take_next(rows.connection)
        assert taken == first
        async with other.transaction():
            assert await operations.take_next(other) == second
        await operations.save_progress(rows.connection, taken, Progress(77, 3, changed=2, refused={"running": [9]}))
    turns = []
    for _ in range(2):
        async with rows.connection.transaction():
            taken = await operations.take_next(rows.connection)
            assert taken is not None
            turns.append(taken.id)
            await operations.save_progress(rows.connection, taken, Progress(None, 0))
    assert turns == [second.id, first.id], "the one that has waited longest is next"
    assert await operations.take_next(rows.connection) is None
    found = await operations.read_operation(rows.connection, first.id, rows.tenant)
    assert found is not None
    assert (found.state, found.before_id, found.matched, found.changed, found.refused) == (2, 77, 3, 2, 1)
    assert found.refusals["running"].ids == (9,)
    await other.close()


async def test_a_batch_that_is_undone_leaves_no_trace_of_its_progress(rows: Rows) -> None:
    made = await start(rows)
    with pytest.raises(ZeroDivisionError):
        async with rows.connection.transaction():
            taken = await operations.take_next(rows.connection)
            assert taken is not None
            await operations.save_progress(rows.connection, taken, Progress(77, 3, changed=3))
            raise ZeroDivisionError
    assert await operations.take_next(rows.connection) == made


async def test_a_stopped_operation_is_worked_on_no_more(rows: Rows) -> None:
    made = await start(rows)
    assert not await operations.stop_operation(rows.connection, made.id, rows.tenant + 1), "it is another tenant's"
    assert await operations.stop_operation(rows.connection, made.id, rows.tenant)
    assert not await operations.stop_operation(rows.connection, made.id, rows.tenant)
    assert await operations.take_next(rows.connection) is None


async def test_a_key_is_good_for_one_operation_of_a_tenant(rows: Rows) -> None:
    key = {"key_hash": b"k" * 16, "body_hash": b"b" * 16}
    made = await start(rows, **key)
    with pytest.raises(AssertionError):
        await start(rows, **key)
    assert await operations.find_by_key(rows.connection, rows.tenant, b"k" * 16) == (made, b"b" * 16)
    assert await operations.find_by_key(rows.connection, rows.tenant + 1, b"k" * 16) is None


async def test_operations_are_forgotten_a_week_after_their_end(rows: Rows) -> None:
    old, young, running = await start(rows), await start(rows), await start(rows)
    for one in (old, young):
        await operations.fail_operation(rows.connection, one.id, "a bug")
    week = timedelta(days=operations.KEPT_DAYS, minutes=1)
    await rows.connection.execute(
        "update operations set ended_at = ended_at - $2::interval where id = $1", old.id, week
    )
    await rows.connection.execute("update operations set created_at = created_at - $1::interval", week)
    await operations.forget_operations(rows.connection, rows=100)
    left, _ = await operations.list_operations(rows.connection, rows.tenant, before=NEWEST, limit=10, state=None)
    assert [one.id for one in left] == [running.id, young.id]
    failed, _ = await operations.list_operations(
        rows.connection, rows.tenant, before=NEWEST, limit=10, state=OperationState.FAILED
    )
    assert [one.trouble for one in failed] == ["a bug"]


async def test_parts_follow_one_another_however_few_candidates_are_examined(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [await rows.task(name="work" if n % 3 else "other") for n in range(20)]
    right = [task for n, task in enumerate(made) if n % 3][::-1]
    monkeypatch.setattr(selection, "FEWEST_EXAMINED", 3)
    for filters in ({"name": "work"}, {}):
        found: list[int] = []
        before: int | None = NEWEST
        while before is not None:
            part = await read_part(
                rows.connection,
                rows.tenant,
                Verb.CANCEL,
                wanted(Verb.CANCEL, **filters),
                before=before,
                most=2,
                examine=3,
            )
            assert len(part.tasks) <= 2
            found += part.tasks
            before = part.next
        assert found == (right if filters else made[::-1])
    counted = await selection.count(
        rows.connection, rows.tenant, Verb.CANCEL, wanted(Verb.CANCEL), most=4, seconds=60, shown=2, part=3
    )
    assert (counted.number, counted.or_more, counted.newest) == (4, True, made[:-3:-1])
    counted = await selection.count(
        rows.connection, rows.tenant, Verb.CANCEL, wanted(Verb.CANCEL), most=100, seconds=60, shown=2, part=3
    )
    assert (counted.number, counted.or_more, counted.states) == (20, False, {State.READY: 20})


@pytest.mark.parametrize("verb", [Verb.CANCEL, Verb.RETRY, Verb.DISCARD])
@pytest.mark.parametrize("filters", [{}, {"name": "work"}, {"tag": ("team", "ml")}, {"schedule": 7}, {"graph": 7}])
async def test_looking_for_tasks_keeps_to_indexes(rows: Rows, verb: Verb, filters: dict[str, object]) -> None:
    fence = await rows.lead()
    task = await rows.running(fence)
    await settle(rows.connection, fence, [rows.ended(task, Outcome.ERROR)])
    explained = Explained(rows.connection)
    await read_part(explained, rows.tenant, verb, wanted(verb, **filters), before=NEWEST, most=5)  # type: ignore[arg-type]
    scans = {kind for kind, _, ran in explained.scans() if ran}
    assert scans <= {"Index Scan", "Index Only Scan"}, scans
