"""The database as `rota db` and `rota doctor` see it. Imports PostgreSQL's client, which only servers need."""

from __future__ import annotations

import asyncio
import sys

import asyncpg
import typer

from rota.cli.operate.finding import Finding
from rota.store import doctor, migrations
from rota.store.migrations import SchemaVersion

_UNUSABLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


def schema(url: str, *, upgrade: bool) -> SchemaVersion:
    """The schema's version, after the upgrade if asked for. Exit code 5 if the database can't be used."""
    try:
        return asyncio.run(migrations.upgrade(url) if upgrade else migrations.read_version(url))
    except _UNUSABLE as error:
        sys.stderr.write(f"rota: the database can't be used: {error or type(error).__name__}\n")
        raise typer.Exit(5) from error


def findings(url: str) -> list[Finding]:
    """PostgreSQL's version, the schema, and tasks that nothing will ever move again. There must be none of these."""
    try:
        seen = asyncio.run(doctor.examine(url))
    except _UNUSABLE as error:
        return [Finding("database", "broken", f"{type(error).__name__}: {error}", "check --database")]
    version = f"PostgreSQL {seen.server_version // 10000}"
    is_new = seen.server_version >= 150000
    found = [
        _judged("database", version, is_good=is_new, remedy="15 or newer"),
        _judged("schema", f"version {seen.schema}", is_good=seen.schema_current, remedy="rota db upgrade"),
    ]
    if seen.schema_current:
        found.append(_judged("stuck tasks", f"{seen.stuck} found", is_good=not seen.stuck, remedy="please report"))
    return found


def _judged(what: str, detail: str, *, is_good: bool, remedy: str) -> Finding:
    return Finding(what, "ok", detail) if is_good else Finding(what, "broken", detail, remedy)
