"""The database as `rota db` and `rota doctor` see it. Imports PostgreSQL's client, which only servers need."""

from __future__ import annotations

import asyncio
import os

import asyncpg
import typer

from rota.cli.operate.database_findings import findings_of
from rota.cli.operate.finding import Finding
from rota.cli.operate.own_process import say
from rota.cli.shell.reasons import reason_of
from rota.model.answers.cluster import DatabaseCheck
from rota.store import doctor, migrations
from rota.store.database_hosts import unverified_hosts
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
    try:
        seen = asyncio.run(doctor.examine_database(url))
    except _UNUSABLE as error:
        return [Finding("database", "broken", _sentence(error), "check --database")]
    return findings_of(
        DatabaseCheck(
            postgresql=seen.postgresql,
            schema=seen.schema,
            is_current=seen.is_current,
            stuck=seen.stuck,
            unverified_hosts=list(unverified_hosts(url, os.environ)),
        )
    )


def _sentence(error: BaseException) -> str:
    refused = refusal(error)
    if refused is not None:
        return refused
    meaning = why_unreachable(error) or "the database can't be used"
    return f"{meaning} ({type(error).__name__}: {error})" if str(error) else reason_of(error, meaning)
