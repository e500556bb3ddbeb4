"""`rota key`: shows concurrency keys, and cools one down."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import key_tables
from rota.cli.tables.render import examples
from rota.client.calls import waiting_calls


def add_to(app: typer.Typer) -> None:
    key = typer.Typer(help="Show concurrency keys, and hold one back for a while.", rich_markup_mode="rich")
    key.command("list", epilog=examples("rota key list"))(list_keys)
    key.command("cool", epilog=examples("rota key cool api.example.com --for 60s", "rota key cool printer --for 0s"))(
        cool_key
    )
    app.add_typer(key, name="key")


def list_keys(output_format: Output = Format.TABLE) -> None:
    """List the concurrency keys with live tasks, and the keys that cool down."""
    show(waiting_calls.concurrency_keys(), output_format, key_tables.keys)


def cool_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the concurrency key.")],
    span: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long; 0s ends the cool-down.")],
    output_format: Output = Format.TABLE,
) -> None:
    """Start no task with this concurrency key for a while, in any pool. Running tasks continue."""
    given = checks.duration("--for", span)
    assert given is not None
    show(waiting_calls.cool_key(name, given), output_format, key_tables.cooled)
