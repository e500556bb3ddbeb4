"""`rota serve`: reads the options into `Settings`; `rota.cli.operate.server_node` runs the process."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.operate.http_options import http_options
from rota.cli.operate.settings_options import (
    Database,
    LogLimit,
    Objects,
    database_url,
    days_setting,
    setting,
    size_setting,
)
from rota.cli.shell import checks
from rota.cli.shell.shared_options import takes
from rota.settings import HttpLimits, Settings, SettingsError, object_options, read_file, timings_from_environment


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel="Running Rota",
        epilog="Example: rota serve --database postgresql://rota@db1,db2/rota --host 0.0.0.0",
    )(serve)


@takes("http", http_options)
def serve(
    *,
    database: Database = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 7070,
    url: Annotated[
        str | None, typer.Option(help="Address at which other machines reach this node. [default: http://HOST:PORT]")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of this node. [default: host name and port]")] = None,
    roles: Annotated[str, typer.Option(help="What this node does: api, leader, or both.")] = "api,leader",
    tokens: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the first tokens of a fresh database.")
    ] = Path("rota-tokens"),
    secrets_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the master keys for tenants' secrets. Else ROTA_SECRETS_KEY_FILE."
        ),
    ] = None,
    objects: Objects = None,
    artifact_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Size limit of an artifact. [default: 1Gi]")
    ] = None,
    artifact_days: Annotated[
        str | None, typer.Option(metavar="DAYS", help="How long artifacts are kept; 0 is forever. [default: 0]")
    ] = None,
    log_limit: LogLimit = None,
    log_inline: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Move longer output to the object store. [default: 256Ki]"),
    ] = None,
    webhooks_private: Annotated[
        bool, typer.Option("--webhooks-private", help="Allow webhooks to private addresses and any port.")
    ] = False,
    metrics_private: Annotated[
        bool, typer.Option("--metrics-private", help="Answer /metrics only to operators' tokens.")
    ] = False,
    http: HttpLimits,
) -> None:
    """Run one server node. Any number of them can share a database, and any of them may die."""
    from rota.cli.operate.server_node import run_server  # noqa: PLC0415 - loads the whole server: over a second

    chosen = tuple(sorted(set(filter(None, roles.split(",")))))
    if not chosen or not set(chosen) <= {"api", "leader"}:
        raise checks.wrong("--roles", f"{roles!r} is not api, leader or api,leader")
    try:
        options = object_options(read_file(None))
    except SettingsError as error:
        raise checks.wrong("rota.toml", str(error)) from None
    settings = Settings(
        objects=setting("objects", objects, ""),
        objects_options=options,
        artifact_limit_bytes=size_setting("artifact_limit", artifact_limit, "1Gi"),
        artifact_days=days_setting("artifact_days", artifact_days, "0"),
        log_limit_bytes=size_setting("log_limit", log_limit, "1Mi"),
        log_inline_bytes=size_setting("log_inline", log_inline, "256Ki"),
        webhooks_private=webhooks_private or os.environ.get("ROTA_WEBHOOKS_PRIVATE") == "1",
        metrics_private=metrics_private or os.environ.get("ROTA_METRICS_PRIVATE") == "1",
        database=database_url(database),
        host=host,
        port=port,
        url=url or "",
        roles=chosen,
        name=name or f"{socket.gethostname()}-{port}",
        timings=timings_from_environment(),
        check_transitions=os.environ.get("ROTA_CHECK_TRANSITIONS") == "1",
        http=http,
        secrets_key=str(secrets_key) if secrets_key else os.environ.get("ROTA_SECRETS_KEY_FILE", ""),
    )
    raise typer.Exit(run_server(settings, tokens))
