"""`rota top`: the state of a pool, refreshed every second until q or Ctrl-C. In a pipe, or with --once, one frame."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rota.cli.shell.connection import connect, show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import waiting_tables
from rota.cli.tables.live import watch
from rota.cli.tables.render import add_command
from rota.client.calls import waiting_calls

REFRESH_SECONDS = 1.0


def add_to(app: typer.Typer) -> None:
    add_command(app, "top", top, "rota top", "rota top --pool render", "rota top --once -o json")


def top(
    pool: Annotated[str, typer.Option(metavar="NAME", help="Name of the pool.")] = "default",
    once: Annotated[bool, typer.Option("--once", help="Show the pool once and exit.")] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Show a pool's load, lanes, shares and nodes every second, until you press q.

    Operators see everything; others see the utilisation and their own share.
    """
    call = waiting_calls.load(pool)
    if once or output_format is Format.JSON or not sys.stdout.isatty():
        show(call, output_format, waiting_tables.frame)
        return
    with connect() as client:
        watch(lambda: waiting_tables.frame(client.perform(call)), REFRESH_SECONDS)
