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
    old = seen.server_version < 150000
    found = [
        Finding("database", "broken", version, "15 or newer") if old else Finding("database", "ok", version),
        Finding("schema", "ok", f"version {seen.schema}")
        if seen.schema_current
        else Finding("schema", "broken", f"version {seen.schema}", "rota db upgrade"),
    ]
    if seen.schema_current:
        stuck = f"{seen.stuck} found"
        found.append(
            Finding("stuck tasks", "broken", stuck, "please report")
            if seen.stuck
            else Finding("stuck tasks", "ok", stuck)
        )
    return found
