"""`rota worker`: reads the options; `rota.cli.operate.worker_node` runs the agent."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.operate.node_options import disk_options, node_options, token_in
from rota.cli.operate.tls_options import CaFile, InsecureHttp, trust
from rota.cli.shell import checks
from rota.cli.shell.shared_options import takes
from rota.model.node import node_name_trouble
from rota.model.units import milliseconds_of
from rota.servers import addresses_of
from rota.tls import clear_fault


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: ROTA_JOIN_TOKEN=… rota worker --server https://a:7070 --ca ca.pem --label zone=a",
    )(worker)


@takes("node", node_options)
@takes("disk", disk_options)
def worker(
    *,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL[,URL]", help="Address of one or more server nodes. Else ROTA_SERVER."),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help="Join token (rota worker-key add), needed once. Better in ROTA_JOIN_TOKEN, where `ps` can't show it.",
        ),
    ] = None,
    join_file: Annotated[Path | None, typer.Option(metavar="FILE", help="File that holds the join token.")] = None,
    token: Annotated[
        str | None, typer.Option(help="A worker's token, for a node without a key. Better in ROTA_TOKEN.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="File that holds the token.")] = None,
    ca: CaFile = None,
    insecure_http: InsecureHttp = False,
    pool: Annotated[str, typer.Option(help="Pool to join.")] = "default",
    name: Annotated[
        str | None, typer.Option(help="Name of this node, unique in its pool. (default: host name)")
    ] = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for work and scratch files.")] = Path(
        "rota-worker"
    ),
    node: dict[str, Any],
    disk: dict[str, Any],
    stop_within: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="When stopped, end within this time; tasks have 70 % of it, at most 5 s, between SIGTERM and SIGKILL.",
        ),
    ] = "15s",
    once: Annotated[bool, typer.Option("--once", help="Run one task, and exit when its result is stored.")] = False,
    idle_exit: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Exit after this long without a task, e.g. 5m.")
    ] = None,
) -> None:
    """Run the agent that makes this machine a node."""
    from rota.cli.operate.worker_node import KEY_FILE, WorkerOptions, run_worker  # noqa: PLC0415 - loads the whole agent

    trust(ca, insecure_http=insecure_http)
    join_token = join or token_in(join_file, "--join-file") or os.environ.get("ROTA_JOIN_TOKEN", "")
    found = _token(token, token_file, needed=not join_token and not (data / KEY_FILE).exists())
    options = WorkerOptions(
        servers=_servers(server or os.environ.get("ROTA_SERVER", "")),
        token=found,
        join_token=join_token,
        pool=pool,
        name=_name(name or socket.gethostname()),
        data=data.absolute(),
        **node,
        **disk,
        once=once,
        idle_seconds=None if idle_exit is None else _seconds("--idle-exit", idle_exit, "1s", "30d"),
        stop_seconds=_seconds("--stop-within", stop_within, "100ms", "1h"),
    )
    checks.data_folder("--data", data)
    raise typer.Exit(run_worker(options))


def _servers(text: str) -> tuple[str, ...]:
    if not text.strip():
        raise checks.wrong("--server", "name at least one server node")
    try:
        servers = addresses_of(text)
    except ValueError as error:
        raise checks.wrong("--server", str(error)) from None
    fault = clear_fault(servers)
    if fault is not None:
        raise checks.wrong("--server", fault)
    return servers


def _token(given: str | None, file: Path | None, *, needed: bool) -> str:
    """A worker's token, which a node with a key does not need."""
    token = given or token_in(file) or os.environ.get("ROTA_TOKEN", "")
    if not token and needed:
        raise checks.wrong("--join", "give --join, --join-file or ROTA_JOIN_TOKEN (see `rota worker-key add`)")
    return token


def _name(name: str) -> str:
    fault = node_name_trouble(name)
    if fault is not None:
        raise checks.wrong("--name", fault)
    return name


def _seconds(option: str, text: str, least: str, most: str) -> float:
    try:
        milliseconds = milliseconds_of(text)
    except ValueError as error:
        raise checks.wrong(option, str(error)) from None
    if not milliseconds_of(least) <= milliseconds <= milliseconds_of(most):
        raise checks.wrong(option, f"it is a duration from {least} to {most}, not {text[:40]!r}")
    return milliseconds / 1000
