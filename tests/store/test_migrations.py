"""The schema: applied once however often and by however many it is asked for, and never by code that is too old."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from rota.store.migrations import (
    LOCK,
    SchemaTooNew,
    TooOldPostgres,
    check_server_version,
    known_migrations,
    read_version,
    upgrade,
)

OLD_AUDIT = """create table audit (id bigint generated always as identity, at timestamptz not null default now(),
    tenant integer, user_name text not null, action text not null, target text not null)"""


async def test_a_fresh_database_is_brought_to_the_version_this_code_knows(empty_database: str) -> None:
    before = await read_version(empty_database)
    after = await upgrade(empty_database)
    assert (before.applied, before.current) == (0, False)
    assert (after.applied, after.current) == (known_migrations()[-1].number, True)


async def test_upgrading_twice_changes_nothing(empty_database: str) -> None:
    await upgrade(empty_database, check_transitions=True)
    before = await _schema(empty_database)
    await upgrade(empty_database, check_transitions=True)
    assert await _schema(empty_database) == before


async def test_many_servers_may_upgrade_at_once(empty_database: str) -> None:
    versions = await asyncio.gather(*(upgrade(empty_database, check_transitions=True) for _ in range(6)))
    assert {version.applied for version in versions} == {known_migrations()[-1].number}
    assert len((await _schema(empty_database))["migrations"]) == len(known_migrations())


async def test_code_that_is_too_old_refuses_a_newer_schema_in_a_sentence(empty_database: str) -> None:
    await upgrade(empty_database)
    connection = await asyncpg.connect(empty_database)
    await connection.execute("insert into schema_migrations (number, name) values (9999, 'from_the_future')")
    await connection.close()
    with pytest.raises(SchemaTooNew, match="the database has schema 9999, this code knows"):
        await upgrade(empty_database)


def test_migrations_are_numbered_without_gaps_and_say_pre_or_post() -> None:
    migrations = known_migrations()
    assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))
    assert {migration.phase for migration in migrations} <= {"pre", "post"}


async def test_a_post_migration_waits_for_servers_older_than_the_migration_before_it(empty_database: str) -> None:
    await upgrade(empty_database)
    post = next(migration for migration in known_migrations() if migration.phase == "post")
    connection = await asyncpg.connect(empty_database)
    try:
        await connection.execute("delete from schema_migrations where number = $1", post.number)
        await connection.execute("create table flights (id uuid)")
        await connection.execute(
            """insert into servers (holder, name, url, version, started_at)
                values (gen_random_uuid(), 'old', 'http://old', '0', now() - interval '1 hour')"""
        )
        assert (await upgrade(empty_database)).current
        assert await connection.fetchval("select to_regclass('flights')") is not None
        await connection.execute("update servers set started_at = now()")
        await upgrade(empty_database)
        assert await connection.fetchval("select to_regclass('flights')") is None
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("changed", "cpu_milli"),
    [
        ("select 1", 250),
        ("update tiers set cpu_milli = 2000 where name = 'basic'", 2000),
        ("insert into audit (user_name, action, target) values ('ann', 'tier.set', 'basic')", 1000),
        ("insert into audit (user_name, action, target) values ('ann', 'tier.set', 'regular')", 250),
    ],
)
async def test_the_tier_of_plain_tasks_becomes_smaller_unless_an_operator_has_set_it(
    empty_database: str, changed: str, cpu_milli: int
) -> None:
    await upgrade(empty_database)
    connection = await asyncpg.connect(empty_database)
    try:
        await connection.execute("update tiers set cpu_milli = 1000 where name = 'basic'")
        await connection.execute("alter table plans drop column cpu_limit")
        await connection.execute(OLD_AUDIT)
        await connection.execute(changed)
        await connection.execute(_text_of("cpu_limits"))
        assert await connection.fetchval("select cpu_milli from tiers where name = 'basic'") == cpu_milli
    finally:
        await connection.close()


async def test_the_plan_unlimited_gets_all_tiers_and_categories_lose_isolations_that_never_were(
    empty_database: str,
) -> None:
    await upgrade(empty_database)
    connection = await asyncpg.connect(empty_database)
    try:
        await connection.execute("alter table categories drop constraint categories_isolation")
        await connection.execute("insert into categories (name, isolation) values ('a', 'bogus'), ('b', 'sandbox')")
        await connection.execute("update plans set tiers = '{basic}'")
        await connection.execute(OLD_AUDIT)
        await connection.execute("insert into audit (user_name, action, target) values ('ann', 'plan.set', 'free')")
        await connection.execute(_text_of("unlimited_tiers"))
        rows = await connection.fetch("select name, isolation from categories order by name")
        assert [tuple(row) for row in rows] == [("a", None), ("b", "sandbox")]
        assert await connection.fetchval("select array_agg(name) from plans where tiers is null") == ["unlimited"]
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("update categories set isolation = 'bogus'")
    finally:
        await connection.close()


def _text_of(name: str) -> str:
    return next(migration.text for migration in known_migrations() if migration.name == name)


async def _schema(url: str) -> dict[str, list[tuple[object, ...]]]:
    """What there is: migrations, identity, tables with their columns, indexes, policies, functions, triggers."""
    questions = {
        "migrations": "select number, name, applied_at from schema_migrations order by 1",
        "identity": "select identity, secret from cluster",
        "columns": """select table_name, column_name, data_type, column_default from information_schema.columns
            where table_schema = 'public' order by 1, 2""",
        "indexes": "select indexname, indexdef from pg_indexes where schemaname = 'public' order by 1",
        "policies": "select tablename, policyname, qual from pg_policies order by 1, 2",
        "functions": "select proname, prosrc from pg_proc where pronamespace = 'public'::regnamespace order by 1",
        "triggers": "select tgname, tgrelid::regclass::text from pg_trigger where not tgisinternal order by 1",
        "plans": "select * from plans order by 1",
    }
    connection = await asyncpg.connect(url)
    try:
        return {name: [tuple(row) for row in await connection.fetch(sql)] for name, sql in questions.items()}
    finally:
        await connection.close()


async def test_an_upgrade_waits_for_another_one_however_long_that_takes(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than a statement may take elsewhere: a server that starts must not end because another one upgrades."""
    monkeypatch.setattr("rota.store.database.STATEMENT_SECONDS", 0.05)
    other = await asyncpg.connect(database)
    await other.execute("select pg_advisory_lock($1)", LOCK)
    waiting = asyncio.create_task(upgrade(database))
    question = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    while not await other.fetchval(question):
        assert not waiting.done()
    await other.execute("select pg_sleep(0.2)")
    assert not waiting.done()
    await other.close()
    assert (await waiting).current


async def test_two_databases_of_one_server_may_be_prepared_at_once(database: str) -> None:
    """Roles belong to the server, so both create the same one."""
    first_migration = known_migrations()[0].text
    block = first_migration[first_migration.index("do $$\nbegin\n    if not exists (select from pg_roles") :]
    create_role = block[: block.index("end $$;") + len("end $$;")].replace("rota_tenant", "rota_made_twice")
    one, other = [await asyncpg.connect(database) for _ in range(2)]
    try:
        transaction = one.transaction()
        await transaction.start()
        await one.execute(create_role)
        blocked = asyncio.create_task(other.execute(create_role))
        while not await one.fetchval("select count(*) from pg_locks where not granted"):
            assert not blocked.done()
        await transaction.commit()
        await blocked
        await one.execute("drop role rota_made_twice")
    finally:
        await one.close()
        await other.close()


def test_a_postgresql_that_is_too_old_is_named() -> None:
    with pytest.raises(TooOldPostgres, match="PostgreSQL 14; 15 or newer is needed"):
        check_server_version(14)
    check_server_version(15)
