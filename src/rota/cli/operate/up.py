"""`rota up`: reads the options; `rota.cli.operate.one_machine` runs the processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.operate import node_options
from rota.cli.operate.node_options import Devices, Engine, Imports, Labels, Mounts, NoSandbox, Ports, Roots
from rota.cli.operate.settings_options import Database, Objects, setting
from rota.cli.shell import checks


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Running Rota", epilog="Example: rota up --port 7070 --import mytasks")(up)


def up(
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Data folder. [default: ~/.local/share/rota]")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)] = 7070,
    imports: Imports = None,
    capacity: Annotated[
        str | None, typer.Option(metavar="NAME=AMOUNT,…", help="What the worker offers, e.g. cpu=8,memory=16G.")
    ] = None,
    label: Labels = None,
    ports: Ports = None,
    mount: Mounts = None,
    no_sandbox: NoSandbox = False,
    engine: Engine = "auto",
    rootfs: Roots = None,
    device: Devices = None,
    database: Database = None,
    objects: Objects = None,
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
        labels=node_options.labels(label),
        ports=ports,
        mounts=node_options.mounts(mount),
        no_sandbox=no_sandbox,
        engine=node_options.engine(engine),
        roots=node_options.roots(rootfs),
        devices=node_options.devices(device),
        database=database or os.environ.get("ROTA_DATABASE"),
        objects=setting("objects", objects, str(folder.absolute() / "objects")),
    )
    raise typer.Exit(run_up(options))
