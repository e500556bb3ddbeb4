"""`rota up`: reads the options; `rota.cli.operate.one_machine` runs the processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.operate.node_options import Imports, node_options
from rota.cli.operate.settings_options import Database, LogLimit, Objects, database_url, setting, size_setting
from rota.cli.shell import checks
from rota.cli.shell.shared_options import takes


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Running Rota", epilog="Example: rota up --port 7070 --import mytasks")(up)


@takes("node", node_options)
def up(
    *,
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Data folder. [default: ~/.local/share/rota]")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)] = 7070,
    imports: Imports = None,
    capacity: Annotated[
        str | None, typer.Option(metavar="NAME=AMOUNT,…", help="What the worker offers, e.g. cpu=8,memory=16G.")
    ] = None,
    node: dict[str, Any],
    database: Database = None,
    objects: Objects = None,
    log_limit: LogLimit = None,
) -> None:
    """Run PostgreSQL, a server node and a worker on this machine. Ctrl-C stops all of them."""
    from rota.cli.operate.one_machine import UpOptions, run_up  # noqa: PLC0415 - loads PostgreSQL's client

    folder = data or Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rota"
    checks.data_folder("--data", folder)
    options = UpOptions(
        data=folder.absolute(),
        port=port,
        imports=tuple(imports or ()),
        capacity=capacity,
        **node,
        database=database_url(database) if database or os.environ.get("ROTA_DATABASE") else None,
        log_limit_bytes=size_setting("log_limit", log_limit, "1Mi"),
        objects=setting("objects", objects, str(folder.absolute() / "objects")),
    )
    raise typer.Exit(run_up(options))
