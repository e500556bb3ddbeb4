"""The second wall: a connection confined to one tenant sees and changes that tenant's rows only, whatever it says."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from rota.model.attempt import LogChunk, Outcome
from rota.settle.settlement import settle
from rota.store.admission import take_ids
from rota.store.cancel_and_rerun import rerun_task
from rota.store.logs import store_chunks
from tests.store.rows import Rows, add_tenant

CONFINED = (
    "tasks",
    "queue",
    "attempts",
    "dead_letters",
    "reruns",
    "log_chunks",
    "edges",
    "tenants",
    "artifacts",
    "attempt_objects",
    "key_places",
    "log_segments",
)


async def _store_objects(rows: Rows, tenant: int, task: int) -> None:
    for number, table in enumerate(("artifacts", "attempt_objects")):
        more = ", task, attempt, purpose" if number else ", created_by"
        values = f", {task}, 1, 'log'" if number else ", 'x'"
        await rows.connection.execute(
            f"""insert into {table} (tenant, sha256, size_bytes, name, object_key{more})
                values ($1, sha256($2::text::bytea), 1, 'secret', 'key of ' || $2 || '{table}'{values})""",
            tenant, str(task),
        )  # fmt: skip


@pytest.fixture
async def two_tenants(rows: Rows) -> tuple[int, int]:
    """Two tenants, each with a waiting, a blocked, an ended and a retried task, and a log."""
    other = await add_tenant(rows.connection)
    fence = await rows.lead()
    for tenant in (rows.tenant, other):
        waiting = await rows.task(tenant=tenant)
        await rows.connection.execute("insert into key_places values ($1, $2, 'k', 1)", waiting, tenant)
        await rows.task(tenant=tenant, after=(waiting,))
        for number in range(2):
            dead = await rows.running(fence, tenant=tenant)
            await settle(rows.connection, fence, [rows.ended(dead, Outcome.ERROR)])
            await store_chunks(rows.connection, [LogChunk(dead, 1, 0, 1, b"secret of %d" % tenant)])
            await _store_objects(rows, tenant, dead)
            await rows.connection.execute(
                """insert into log_segments (task, attempt, first_seq, last_seq, size_bytes, stored_bytes, last_at, object_key)
                    values ($1, 2, 0, 0, 1, 1, now(), 'segment of ' || $1::bigint)""",
                dead,
            )
            if number:
                again = await take_ids(rows.connection, 1)
                await rerun_task(rows.connection, dead, tenant, new_id=again, user="x", server=0)
    return rows.tenant, other


async def test_a_read_without_a_tenant_condition_gives_the_tenants_own_rows(
    rows: Rows, two_tenants: tuple[int, int]
) -> None:
    seen = {}
    for tenant in two_tenants:
        async with rows.database.tenant(tenant) as connection:
            seen[tenant] = {table: len(await connection.fetch(f"select * from {table}")) for table in CONFINED}
            owners = {
                row["tenant"]
                for table in (
                    "tasks",
                    "queue",
                    "attempts",
                    "dead_letters",
                    "reruns",
                    "artifacts",
                    "attempt_objects",
                )
                for row in await connection.fetch(f"select tenant from {table}")
            }
            logs = {row["data"] for row in await connection.fetch("select data from log_chunks")}
            names = {row["id"] for row in await connection.fetch("select id from tenants")}
        assert (owners, logs, names) == ({tenant}, {b"secret of %d" % tenant}, {tenant})
    each = dict(zip(CONFINED, (5, 3, 2, 1, 1, 2, 1, 1, 2, 2, 1, 2), strict=True))
    assert seen == {tenant: each for tenant in two_tenants}


async def test_a_change_without_a_tenant_condition_changes_the_tenants_own_rows(
    rows: Rows, two_tenants: tuple[int, int]
) -> None:
    ours, theirs = two_tenants
    before = await rows.connection.fetch("select * from queue where tenant = $1 order by id", theirs)
    async with rows.database.tenant(ours) as connection:
        assert await connection.execute("update queue set cancel_requested = true") == "UPDATE 3"
        assert await connection.execute("delete from dead_letters") == "DELETE 1"
        assert await connection.execute("delete from queue") == "DELETE 3"
    assert await rows.connection.fetch("select * from queue where tenant = $1 order by id", theirs) == before
    assert await rows.connection.fetchval("select count(*) from dead_letters where tenant = $1", theirs) == 1


async def test_a_row_can_not_be_given_to_another_tenant(rows: Rows, two_tenants: tuple[int, int]) -> None:
    ours, theirs = two_tenants
    for statement in (
        f"update queue set tenant = {theirs}",
        f"insert into reruns (task, tenant, rerun) values (1000000, {theirs}, 1)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            async with rows.database.tenant(ours) as connection:
                await connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "select secret_hash from tokens",
        "select secret from cluster",
        "update leases set epoch = 0",
        "insert into tasks select * from tasks",
        "delete from attempts",
        "update plans set weight = 1000",
        "select * from tasks_0",
        "select * from audit_log",
        "select * from audit_seals",
        "select * from principals",
        "select * from bindings",
        "select * from sessions",
        "select key_hash from idempotency",
        "select ciphertext from secrets",
        "select * from loose_objects",
        "select * from long_logs",
        "delete from log_segments",
        "delete from artifacts",
        "update attempt_objects set name = ''",
        "create table mine (id int)",
        "select take_task_ids(1)",
    ],
)
async def test_what_a_tenant_has_no_business_with_is_refused(rows: Rows, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with rows.database.tenant(rows.tenant) as connection:
            await connection.execute(statement)


async def test_a_confinement_ends_with_its_transaction_also_when_that_fails(rows: Rows) -> None:
    task = await rows.task(tenant=await add_tenant(rows.connection))
    with pytest.raises(ZeroDivisionError):
        async with rows.database.tenant(rows.tenant):
            raise ZeroDivisionError
    async with rows.database.engine() as connection:
        assert await connection.fetchval("select id from tasks where id = $1", task) == task
        assert await connection.fetchval("select current_setting('role')") == "none"


async def test_tenants_that_share_the_pool_never_see_each_other(rows: Rows, two_tenants: tuple[int, int]) -> None:
    async def owners(tenant: int) -> set[int]:
        async with rows.database.tenant(tenant) as connection:
            return {row["tenant"] for row in await connection.fetch("select tenant from tasks, pg_sleep(0.001)")}

    seen = await asyncio.gather(*(owners(tenant) for _ in range(25) for tenant in two_tenants))
    assert seen == [{tenant} for _ in range(25) for tenant in two_tenants]


async def test_without_a_tenant_the_confined_role_sees_nothing(rows: Rows, two_tenants: tuple[int, int]) -> None:
    async with rows.connection.transaction():
        await rows.connection.execute("set local role rota_tenant")
        counts = [await rows.connection.fetchval(f"select count(*) from {table}") for table in CONFINED]
    assert counts == [0] * len(CONFINED)
