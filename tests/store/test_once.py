"""Effects done once: of all who ask at once exactly one is first, and what is done stays done."""

from __future__ import annotations

import asyncio

from rota.store import once
from rota.store.once import Claimant, Done, First, Taken
from tests.store.rows import Rows, add_tenant


def by(name: str, lease_ms: int = 60_000) -> Claimant:
    return Claimant(name, lease_ms)


async def test_of_many_who_ask_at_once_exactly_one_is_first(rows: Rows) -> None:
    async def ask(number: int) -> First | Done | Taken:
        async with rows.database.engine() as connection:
            return await once.claim(connection, rows.tenant, "crowd", by(f"claim-{number}"))

    answers = await asyncio.gather(*(ask(number) for number in range(20)))
    assert sum(isinstance(found, First) for found in answers) == 1
    assert all(isinstance(found, First | Taken) for found in answers)


async def test_a_claim_repeated_is_the_same_claim_and_a_record_repeated_the_same_record(rows: Rows) -> None:
    connection, tenant = rows.connection, rows.tenant
    for _ in range(2):
        assert await once.claim(connection, tenant, "same", by("a")) == First()
    assert await once.record(connection, tenant, "same", "a", "[1]") == First()
    assert await once.record(connection, tenant, "same", "a", "[2]") == Done("[1]", is_ours=True)
    assert await once.claim(connection, tenant, "same", by("a")) == Done("[1]", is_ours=True)
    assert await once.claim(connection, tenant, "same", by("b")) == Done("[1]", is_ours=False)
    assert not await once.give_up(connection, tenant, "same", "a")


async def test_a_claim_lapses_and_who_lost_it_cannot_record(rows: Rows) -> None:
    connection, tenant = rows.connection, rows.tenant
    assert await once.claim(connection, tenant, "late", by("a", 0)) == First()
    assert await once.claim(connection, tenant, "late", by("b")) == First()
    lost = await once.record(connection, tenant, "late", "a", "1")
    assert isinstance(lost, Taken)
    assert isinstance(await once.record(connection, tenant, "late", None, "1"), Taken)
    assert await once.record(connection, tenant, "late", "b", "2") == First()


async def test_what_was_given_up_is_anybodys(rows: Rows) -> None:
    connection, tenant = rows.connection, rows.tenant
    await once.claim(connection, tenant, "again", by("a"))
    assert not await once.give_up(connection, tenant, "again", "b")
    assert await once.give_up(connection, tenant, "again", "a")
    assert await once.record(connection, tenant, "again", None, "null") == First()
    assert await once.record(connection, tenant, "again", None, "1") == Done("null", is_ours=True)


async def test_a_tasks_claim_holds_exactly_as_long_as_its_attempt_runs(rows: Rows) -> None:
    fence = await rows.lead()
    connection, tenant = rows.connection, rows.tenant
    task = await rows.running(fence)
    assert await once.running_tenant(connection, task, 1) == tenant
    assert await once.running_tenant(connection, task, 2) is None
    first = Claimant("first", 0, task, 1)
    assert await once.claim(connection, tenant, "held", first) == First()
    assert isinstance(await once.claim(connection, tenant, "held", by("other", 0)), Taken)
    assert isinstance(await once.claim(connection, tenant, "held", Claimant("twin", 0, task, 1)), Taken)
    await connection.execute("delete from queue where id = $1", task)
    assert await once.claim(connection, tenant, "held", by("other")) == First()


async def test_keys_are_the_tenants_own(rows: Rows) -> None:
    other = await add_tenant(rows.connection)
    assert await once.record(rows.connection, rows.tenant, "shared", None, "1") == First()
    assert await once.record(rows.connection, other, "shared", None, "2") == First()
    async with rows.database.tenant(other) as confined:
        assert [row["result"] for row in await confined.fetch("select result from once where key = 'shared'")] == ["2"]
