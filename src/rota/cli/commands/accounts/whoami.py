"""`rota whoami`: who you are for the server, and what you may do."""

from __future__ import annotations

import typer

from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import account_tables
from rota.cli.tables.render import add_command
from rota.client.calls import account_calls
from rota.client.transport.profile import origin_of_token, resolve


def add_to(app: typer.Typer) -> None:
    add_command(app, "whoami", whoami, "rota whoami", "rota --tenant acme whoami", "rota whoami -o json")


def whoami(output_format: Output = Format.TABLE) -> None:
    """Show who you are, what you may do, when your token expires, and where it comes from."""
    show(account_calls.whoami(), output_format, lambda answer: account_tables.whoami(answer, _from()))


def _from() -> tuple[tuple[str, str], ...]:
    return ("server", ", ".join(resolve().servers)), ("token in", origin_of_token())
