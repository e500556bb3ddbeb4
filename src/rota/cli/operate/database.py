"""The database as `rota db` and `rota doctor` see it. Imports PostgreSQL's client, which only servers need."""

from __future__ import annotations

import asyncio

import asyncpg
import typer

from rota.cli.operate.finding import Finding
from rota.cli.operate.own_process import say
from rota.store import doctor, migrations
from rota.store.migrations import SchemaVersion
from rota.store.trouble import refusal, why_unreachable

_UNUSABLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


def schema(url: str, *, upgrade: bool) -> SchemaVersion:
    """The schema's version, after the upgrade if asked for. Exit code 5 if there is no database, 4 if it refuses."""
    try:
        return asyncio.run(migrations.upgrade(url) if upgrade else migrations.read_version(url))
    except _UNUSABLE as error:
        raise typer.Exit(say(_sentence(error), 4 if refusal(error) else 5)) from error
    except (migrations.SchemaTooNew, migrations.TooOldPostgres) as error:
        raise typer.Exit(say(str(error), 1)) from error


def findings(url: str) -> list[Finding]:
    """PostgreSQL's version, the schema, and tasks that nothing will ever move again. There must be none of these."""
    try:
        seen = asyncio.run(doctor.examine(url))
    except _UNUSABLE as error:
        return [Finding("database", "broken", _sentence(error), "check --database")]
    version = f"PostgreSQL {seen.server_version // 10000}"
    is_new = seen.server_version >= 150000
    found = [
        _judged("database", version, is_good=is_new, remedy="15 or newer"),
        _judged("schema", f"version {seen.schema}", is_good=seen.schema_current, remedy="rota db upgrade"),
    ]
    if seen.schema_current:
        found.append(_judged("stuck tasks", f"{seen.stuck} found", is_good=not seen.stuck, remedy="please report"))
    return found


def _sentence(error: BaseException) -> str:
    reason = refusal(error) or why_unreachable(error) or "the database can't be used"
    detail = "" if refusal(error) else f" ({type(error).__name__}: {error})"
    return f"{reason}{detail.replace(': )', ')')}"


def _judged(what: str, detail: str, *, is_good: bool, remedy: str) -> Finding:
    return Finding(what, "ok", detail) if is_good else Finding(what, "broken", detail, remedy)
