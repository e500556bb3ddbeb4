"""`rota up`: reads the options; `rota.cli.operate.one_machine` runs the processes.

It takes every option of `rota serve` and `rota worker` that a single machine can use, and passes it on as it was typed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.operate.http_options import http_options
from rota.cli.operate.node_options import disk_options, node_options
from rota.cli.operate.server_options import server_options
from rota.cli.operate.settings_options import Database, database_url, setting
from rota.cli.shell import checks
from rota.cli.shell.shared_options import takes_words


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: rota up --port 7070 --import mytasks")(up)


@takes_words("node", node_options)
@takes_words("disk", disk_options)
@takes_words("server", server_options)
@takes_words("http", http_options)
def up(
    *,
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Data folder. (default: ~/.local/share/rota)")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)] = 7070,
    database: Database = None,
    node: tuple[str, ...],
    disk: tuple[str, ...],
    server: tuple[str, ...],
    http: tuple[str, ...],
) -> None:
    """Run PostgreSQL, a server node and a worker on this machine. Ctrl-C stops all of them."""
    from rota.cli.operate.one_machine import UpOptions, run_up  # noqa: PLC0415 - loads PostgreSQL's client

    folder = data or Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rota"
    checks.data_folder("--data", folder)
    options = UpOptions(
        data=folder.absolute(),
        port=port,
        database=database_url(database) if database or os.environ.get("ROTA_DATABASE") else None,
        objects=setting("objects", None, str(folder.absolute() / "objects")),
        server=server + http,
        worker=node + disk,
    )
    raise typer.Exit(run_up(options))
