"""The audit log takes rows and gives none back: nothing changes, removes or backdates one."""

from __future__ import annotations

import asyncpg
import pytest

from rota.model.audit import Entry
from rota.store.audit import record
from rota.store.migrations import known_migrations, upgrade
from tests.store.rows import Rows
from tests.store.test_migrations import OLD_AUDIT


def entry(target: str = "small", **more: object) -> Entry:
    given: dict[str, object] = {"action": "pool.set", "object_kind": "pool", "actor_kind": "user", "actor": "ann"}
    return Entry(object_id=target, **{**given, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("table", ["audit_log", "audit_log_{month}"])
@pytest.mark.parametrize("change", ["update {} set actor = 'bob'", "delete from {}", "truncate {}"])
async def test_the_role_that_owns_the_table_changes_no_row(rows: Rows, table: str, change: str) -> None:
    await record(rows.connection, entry())
    month = await rows.connection.fetchval("select to_char(now() at time zone 'UTC', 'YYYYMM')")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="the audit log is insert-only"):
        await rows.connection.execute(change.format(table.format(month=month)))


@pytest.mark.parametrize("column", ["at", "xid"])
async def test_a_row_is_not_backdated(rows: Rows, column: str) -> None:
    value = {"at": "now() - interval '1 hour'", "xid": "'3'::xid8"}[column]
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="the time and the transaction of its writing"):
        await rows.connection.execute(
            f"""insert into audit_log ({column}, actor_kind, actor, action, object_kind, object_id)
                values ({value}, 'user', 'ann', 'pool.set', 'pool', 'small')"""
        )


@pytest.mark.parametrize("question", ["select * from audit_log", "select * from audit_seals"])
async def test_the_role_of_tenants_sees_nothing_of_it(rows: Rows, question: str) -> None:
    async with rows.connection.transaction():
        await rows.connection.execute("set local role rota_tenant")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
            await rows.connection.execute(question)


async def test_what_the_old_table_has_is_copied_once(empty_database: str) -> None:
    await upgrade(empty_database)
    connection = await asyncpg.connect(empty_database)
    texts = {migration.name: migration.text for migration in known_migrations()}
    try:
        await connection.execute(
            """drop table audit_log, audit_seals; drop sequence audit_ids; alter table retention drop column audit_days;
                drop function refuse_audit_change, check_audit_row, make_audit_month"""
        )
        await connection.execute(OLD_AUDIT)
        add = "insert into audit (at, tenant, user_name, action, target) values ($at, 1, 'ann', 'tier.set', $1)"
        await connection.execute(add.replace("$at", "'2025-03-31 23:59Z'"), "old")
        await connection.execute(texts["audit_log"])
        await connection.execute(add.replace("$at", "now()"), "late")
        await connection.execute(texts["drop_audit"])
        found = await connection.fetch(
            "select tableoid::regclass::text, actor, object_kind, object_id from audit_log order by id"
        )
        month = await connection.fetchval("select to_char(now() at time zone 'UTC', 'YYYYMM')")
        assert [tuple(row) for row in found] == [
            ("audit_log_202503", "ann", "tier", "old"),
            (f"audit_log_{month}", "ann", "tier", "late"),
        ]
        assert await connection.fetchval("select to_regclass('audit')") is None
    finally:
        await connection.close()
