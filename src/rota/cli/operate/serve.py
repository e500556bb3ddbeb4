"""`rota serve`: reads the options into `Settings`; `rota.cli.operate.server_node` runs the process."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.operate.http_options import http_options
from rota.cli.operate.server_options import server_options
from rota.cli.operate.settings_options import Database, database_url
from rota.cli.operate.tls_options import check_exposure, tls_options
from rota.cli.shell import checks
from rota.cli.shell.shared_options import takes
from rota.settings import HttpLimits, Settings, timings_from_environment


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: rota serve --database postgresql://rota@db1,db2/rota --host 0.0.0.0 --url https://a:7070 "
        "--tls-cert rota-tls/server.pem --tls-key rota-tls/server.key --ca rota-tls/ca.pem",
    )(serve)


@takes("shared", server_options)
@takes("http", http_options)
@takes("encryption", tls_options)
def serve(
    *,
    database: Database = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 7070,
    url: Annotated[
        str | None, typer.Option(help="Address at which other machines reach this node. (default: HOST:PORT)")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of this node. (default: host name and port)")] = None,
    roles: Annotated[str, typer.Option(help="What this node does: api, leader, or both.")] = "api,leader",
    tokens: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the first token of a fresh database.")
    ] = Path("rota-tokens"),
    shared: dict[str, Any],
    http: HttpLimits,
    encryption: dict[str, Any],
) -> None:
    """Run one server node. Any number of them can share a database, and any of them may die."""
    from rota.cli.operate.server_node import run_server  # noqa: PLC0415 - loads the whole server: over a second

    chosen = tuple(sorted(set(filter(None, roles.split(",")))))
    if not chosen or not set(chosen) <= {"api", "leader"}:
        raise checks.wrong("--roles", f"{roles!r} is not api, leader or api,leader")
    settings = Settings(
        **shared,
        **encryption,
        database=database_url(database),
        host=host,
        port=port,
        url=url or "",
        roles=chosen,
        name=name or f"{socket.gethostname()}-{port}",
        timings=timings_from_environment(),
        check_transitions=os.environ.get("ROTA_CHECK_TRANSITIONS") == "1",
        http=http,
    )
    check_exposure(settings)
    raise typer.Exit(run_server(settings, tokens))
