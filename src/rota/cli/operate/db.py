"""`rota db`: shows and upgrades the version of the database schema."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from rota.cli.operate.settings_options import Database, database_url

if TYPE_CHECKING:
    from rota.store.migrations import SchemaVersion


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Show and upgrade the database schema.", no_args_is_help=True)
    group.command("upgrade", epilog="Example: rota db upgrade --database postgresql://rota@db/rota")(upgrade)
    group.command("version", epilog="Example: rota db version")(version)
    app.add_typer(group, name="db")


def upgrade(database: Database = None) -> None:
    """Upgrade the schema to the version this code needs. Safe to repeat, also while servers run."""
    sys.stdout.write(f"schema {_schema(database, upgrade=True).applied}\n")


def version(database: Database = None) -> None:
    """Show the schema's version and the version this code needs."""
    found = _schema(database, upgrade=False)
    sys.stdout.write(f"schema {found.applied}, this code needs {found.known}\n")
    raise typer.Exit(0 if found.current else 1)


def _schema(database: str | None, *, upgrade: bool) -> SchemaVersion:
    from rota.cli.operate.database import schema  # noqa: PLC0415 - loads PostgreSQL's client

    return schema(database_url(database), upgrade=upgrade)
