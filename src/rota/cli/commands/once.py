"""`rota once KEY -- command`: runs a command unless it has succeeded under this key before."""

from __future__ import annotations

import subprocess
from typing import Annotated

import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, connect
from rota.cli.tables.render import add_command
from rota.model.units import milliseconds_of

_RENEWALS_A_LEASE = 3


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "once",
        once,
        "rota once invoice-2026-03 -- ./send-invoices.sh",
        "rota once --lease 10m import-7 -- ./import 7",
        context_settings={"allow_interspersed_args": False},
    )


def once(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Name of the effect that must happen only once.")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Command to run.")],
    lease: Annotated[
        str, typer.Option(metavar="DURATION", help="Others may start if this process is silent for so long.")
    ] = "1m",
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long to wait for another process that runs it now.")
    ] = None,
) -> None:
    """Run a command unless it has succeeded under this key before.

    Exits with the command's exit code, or with 0 if the command has succeeded before. A failed command can run again.
    """
    words = command[1:] if command[0] == "--" else command  # after KEY, Typer passes the dashes on
    if not words:
        raise checks.wrong("COMMAND", "name a command to run after KEY")
    checks.duration("--lease", lease)
    checked = checks.duration("--timeout", timeout)
    lease_seconds = milliseconds_of(lease) / 1000
    timeout_seconds = None if checked is None else milliseconds_of(checked) / 1000
    with (
        connect(FOLLOW_RETRY_SECONDS) as client,
        client.once(key, lease=lease, timeout=timeout_seconds) as use,
    ):
        if not use.first:
            output.note(f"{key} was done before")
            return
        try:
            process = subprocess.Popen(words)
        except OSError as error:
            raise checks.wrong("COMMAND", f"{words[0]} can't be run: {error.strerror}") from None
        code: int | None = None
        while code is None:
            try:
                code = process.wait(lease_seconds / _RENEWALS_A_LEASE)
            except subprocess.TimeoutExpired:
                use.renew()
        if code == 0:
            use.done({"exit_code": 0})
    if code:
        raise typer.Exit(code if code > 0 else 128 - code)
