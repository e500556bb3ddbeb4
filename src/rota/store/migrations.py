"""Brings the schema to the version this code needs: numbered plain-SQL files, applied once, under a lock.

A file is `NNNN_pre_words.sql` (only adds, so old code keeps working beside it) or `NNNN_post_words.sql` (removes what
only old code used). A `post` file waits until no live server was started before the migration that precedes it: code
that is too old refuses to start on a newer schema. The next server start or `rota db upgrade` tries again.
`lock_timeout` keeps a migration from queueing behind a long transaction and blocking all later statements.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from importlib import resources

import asyncpg

from rota.model.task import TRANSITIONS, State
from rota.store.database import AnyConnection, Connection, connect
from rota.store.statements import sql

LOCK = 7236000
OLDEST_POSTGRES = 15
_FILE_NAME = re.compile(r"^(\d{4})_(pre|post)_(\w+)\.sql\Z")


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    phase: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    applied: int
    known: int
    needed: int  # the last `pre` migration this code knows

    @property
    def current(self) -> bool:
        return self.applied >= self.needed


class SchemaTooNew(RuntimeError):
    """The database was upgraded by newer code than this."""


class TooOldPostgres(RuntimeError):
    """The database's own version is too old."""


def check_server_version(major: int) -> None:
    if major < OLDEST_POSTGRES:
        raise TooOldPostgres(f"the database is PostgreSQL {major}; {OLDEST_POSTGRES} or newer is needed")


def known_migrations() -> list[Migration]:
    migrations = []
    for entry in resources.files("rota.store").joinpath("sql", "migrations").iterdir():
        match = _FILE_NAME.match(entry.name)
        if match:
            migrations.append(Migration(int(match[1]), match[2], match[3], entry.read_text()))
    return sorted(migrations, key=lambda migration: migration.number)


async def read_version(url: str) -> SchemaVersion:
    connection = await connect(url, {})
    try:
        return await version_of(connection)
    finally:
        await connection.close()


async def upgrade(url: str, *, check_transitions: bool = False) -> SchemaVersion:
    """Applies the missing migrations. Any number of servers may call it at once."""
    # No limit on the time of a statement: a change of a large table takes long, and so may a server that has the lock.
    connection = await connect(
        url, {"lock_timeout": "2s", "application_name": "rota migrations"}, statement_seconds=None
    )
    try:
        check_server_version(connection.get_server_version().major)
        await connection.execute("set lock_timeout = 0")
        await connection.execute(sql("schema/lock_schema"), LOCK)
        await connection.execute("set lock_timeout = '2s'")
        await connection.execute(sql("schema/create_schema_migrations"))
        version = await version_of(connection)
        if version.applied > version.known:
            raise SchemaTooNew(
                f"the database has schema {version.applied}, this code knows {version.known}: upgrade rota here"
            )
        applied = await _applied(connection)
        for migration in known_migrations():
            if migration.number in applied:
                continue
            if migration.phase == "pre" or not await _older_servers_run(connection, migration):
                await _apply(connection, migration)
        await connection.execute(sql("schema/create_identity"), secrets.token_urlsafe(32))
        if check_transitions:
            await connection.execute(transition_trigger())
        return await version_of(connection)
    finally:
        await connection.close()


async def version_of(connection: AnyConnection) -> SchemaVersion:
    known = known_migrations()
    needed = max(migration.number for migration in known if migration.phase == "pre")
    return SchemaVersion(max(await _applied(connection), default=0), known[-1].number, needed)


async def _applied(connection: AnyConnection) -> set[int]:
    try:
        return {row["number"] for row in await connection.fetch(sql("schema/applied_migrations"))}
    except asyncpg.UndefinedTableError:
        return set()


async def _older_servers_run(connection: Connection, migration: Migration) -> bool:
    return bool(await connection.fetchval(sql("schema/older_servers_run"), migration.number))


async def _apply(connection: Connection, migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(migration.text)
        await connection.execute(sql("schema/record_migration"), migration.number, migration.name)


def transition_trigger() -> str:
    """The table of legal transitions as a trigger on `queue`: generated, for tests only, as it costs 2.5 µs a row."""
    pairs = ", ".join(
        f"({before.value}, {after.value})"
        for before, afters in TRANSITIONS.items()
        for after in sorted(afters)
        if not before.terminal and not after.terminal
    )
    same = ", ".join(f"({state.value}, {state.value})" for state in State if not state.terminal)
    return f"""
        create or replace function check_transition() returns trigger language plpgsql as $$
        begin
            if (old.state, new.state) not in ({pairs}, {same}) then
                raise exception 'illegal transition of task %: % to %', old.id, old.state, new.state;
            end if;
            if new.version <= old.version and (old.state, old.attempt) is distinct from (new.state, new.attempt) then
                raise exception 'version of task % did not rise', old.id;
            end if;
            if new.attempt not in (old.attempt, old.attempt + 1) then
                raise exception 'attempt of task % went from % to %', old.id, old.attempt, new.attempt;
            end if;
            return new;
        end $$;
        create or replace trigger check_transition before update on queue
            for each row execute function check_transition();"""
