"""The commands that run Rota itself: everything on one machine, or a server node, or a worker.

Each is thin: options in, a composition root called. Heavy imports happen inside: most calls of `rota` need none.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from rota.cli.operate import doctor
from rota.cli.shell import checks
from rota.model.node import node_name_trouble
from rota.model.units import bytes_of, milliseconds_of

T = TypeVar("T")

_LONGEST_IDLE_MS = 30 * 24 * 3600 * 1000

NAMES = ("up", "serve", "worker", "db", "doctor")

Database = Annotated[
    str | None,
    typer.Option(help="PostgreSQL 15+, e.g. postgresql://user@host/db; several hosts are fine. Else ROTA_DATABASE."),
]


Objects = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where artifacts are kept: a folder (shared by all servers), s3://bucket/prefix, gs://…, az://…. "
        "Else ROTA_OBJECTS or rota.toml.",
    ),
]

Ports = Annotated[
    str | None, typer.Option(metavar="FIRST-LAST", help="TCP ports to give to tasks. [default: 30000-30999]")
]


Mounts = Annotated[
    list[str] | None,
    typer.Option(
        "--mount",
        metavar="NAME:FOLDER[:ro|rw][:tenant=A,B]",
        help="A folder that sandboxed tasks (of these tenants alone) may ask for by name; repeatable.",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="auto|podman|docker|none", envvar="ROTA_ENGINE", show_envvar=False,
        help="What runs containers. [default: auto, podman before docker]", show_default=False,
    ),
]  # fmt: skip
Roots = Annotated[
    list[str] | None,
    typer.Option("--rootfs", metavar="NAME:FOLDER", help="An unpacked system for tasks to run in; repeatable."),
]
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device", metavar="NAME[NUMBER]=FILE,…",
        help="Files of a device, seen only by those it is given to: gpu0=/dev/nvidia0; repeatable.",
    ),
]  # fmt: skip
NoSandbox = Annotated[bool, typer.Option("--no-sandbox", help="Take trusted work only.")]


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="Running Rota", epilog="Example: rota up --port 7070 --import mytasks")(up)
    app.command(
        rich_help_panel="Running Rota",
        epilog="Example: rota serve --database postgresql://rota@db1,db2/rota --host 0.0.0.0",
    )(serve)
    app.command(
        rich_help_panel="Running Rota",
        epilog="Example: ROTA_TOKEN=… rota worker --server http://a:7070,http://b:7070 --label zone=a",
    )(worker)
    app.command(rich_help_panel="Running Rota", epilog="Example: rota doctor -o json")(doctor.doctor)
    database = typer.Typer(help="The database's schema.", no_args_is_help=True)
    database.command("upgrade", epilog="Example: rota db upgrade --database postgresql://rota@db/rota")(db_upgrade)
    database.command("version", epilog="Example: rota db version")(db_version)
    app.add_typer(database, name="db", rich_help_panel="Running Rota")


def up(
    data: Annotated[Path | None, typer.Option(help="Where everything is kept. [default: ~/.local/share/rota]")] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)] = 7070,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", help="Module to load in every function process; repeatable."),
    ] = None,
    capacity: Annotated[str | None, typer.Option(help="What the worker offers, e.g. cpu=8,memory=16G.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label K=V that tasks can require; repeatable.")] = None,
    ports: Ports = None,
    mount: Mounts = None,
    no_sandbox: NoSandbox = False,
    engine: Engine = "auto",
    rootfs: Roots = None,
    device: Devices = None,
    database: Database = None,
    objects: Objects = None,
) -> None:
    """Run everything on this machine: PostgreSQL, a server node, a worker. Ctrl-C stops it."""
    from rota.cli.operate.up import UpOptions, run_up

    folder = data or Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rota"
    checks.data_folder("--data", folder)
    options = UpOptions(
        data=folder.absolute(), port=port, imports=tuple(imports or ()), capacity=capacity,
        labels=_labels(label), ports=ports, mounts=_mounts(mount), no_sandbox=no_sandbox,
        engine=_engine(engine), roots=_roots(rootfs), devices=_devices(device),
        database=database or os.environ.get("ROTA_DATABASE"),
        objects=_setting("objects", objects, str(folder.absolute() / "objects")),
    )  # fmt: skip
    raise typer.Exit(run_up(options))


def serve(
    database: Database = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 7070,
    url: Annotated[
        str | None, typer.Option(help="How other machines reach this node. [default: http://HOST:PORT]")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of this node. [default: host name and port]")] = None,
    roles: Annotated[str, typer.Option(help="What it does: api, leader, or both.")] = "api,leader",
    keys: Annotated[Path, typer.Option(help="Folder for the first keys of a fresh database.")] = Path("rota-keys"),
    secrets_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Master keys for tenants' secrets. Else ROTA_SECRETS_KEY_FILE."),
    ] = None,
    objects: Objects = None,
    artifact_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The largest artifact taken. [default: 1Gi]")
    ] = None,
    artifact_days: Annotated[
        str | None, typer.Option(metavar="DAYS", help="How long artifacts are kept; 0 for ever. [default: 0]")
    ] = None,
    log_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Output kept of one attempt. [default: 1Mi]")
    ] = None,
    log_inline: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Longer output is moved to the object store. [default: 256Ki]"),
    ] = None,
    webhooks_private: Annotated[
        bool, typer.Option("--webhooks-private", help="Webhooks may go to private addresses and any port.")
    ] = False,
) -> None:
    """Run one server node. Start as many as you like on one database; any of them may die."""
    from rota.cli.operate.server_node import run_server
    from rota.settings import Settings, SettingsError, object_options, read_file, timings_from_environment

    chosen = tuple(sorted(set(filter(None, roles.split(",")))))
    if not chosen or not set(chosen) <= {"api", "leader"}:
        raise typer.BadParameter(f"{roles!r} is not api, leader or api,leader", param_hint="--roles")
    try:
        options = object_options(read_file(None))
    except SettingsError as error:
        raise typer.BadParameter(str(error), param_hint="rota.toml") from None
    settings = Settings(
        objects=_setting("objects", objects, ""), objects_options=options,
        artifact_limit_bytes=_bytes("artifact_limit", artifact_limit, "1Gi"),
        artifact_days=_days("artifact_days", artifact_days, "0"),
        log_limit_bytes=_bytes("log_limit", log_limit, "1Mi"),
        log_inline_bytes=_bytes("log_inline", log_inline, "256Ki"),
        webhooks_private=webhooks_private or os.environ.get("ROTA_WEBHOOKS_PRIVATE") == "1",
        database=_database(database), host=host, port=port, url=url or "", roles=chosen,
        name=name or f"{socket.gethostname()}-{port}", timings=timings_from_environment(),
        check_transitions=os.environ.get("ROTA_CHECK_TRANSITIONS") == "1",
        secrets_key=str(secrets_key) if secrets_key else os.environ.get("ROTA_SECRETS_KEY_FILE", ""),
    )  # fmt: skip
    raise typer.Exit(run_server(settings, keys))


def worker(
    server: Annotated[
        str | None, typer.Option(help="Address of any server node, or several with commas. Else ROTA_SERVER.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="A worker's key. Better in ROTA_TOKEN, where `ps` can't show it.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File that holds the key.")] = None,
    pool: Annotated[str, typer.Option(help="Pool to join.")] = "default",
    name: Annotated[
        str | None, typer.Option(help="Name of this node, unique in its pool. [default: host name]")
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder for work and scratch files.")] = Path("rota-worker"),
    capacity: Annotated[
        str | None,
        typer.Option(help="What to offer, e.g. cpu=8,memory=16G,iops=5k,bandwidth=1G,gpu=1,license=2."),
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label K=V that tasks can require; repeatable.")] = None,
    ports: Ports = None,
    mount: Mounts = None,
    no_sandbox: NoSandbox = False,
    engine: Engine = "auto",
    rootfs: Roots = None,
    device: Devices = None,
    reserve_disk: Annotated[
        str, typer.Option(help="With less free on the disk of --data, no work is taken, e.g. 1G.")
    ] = "64M",
    artifact_cache: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Fetched artifacts kept on this node. [default: 10Gi]")
    ] = None,
    outputs_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What one attempt may leave as outputs. [default: 10Gi]")
    ] = None,
    checkpoint_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What one task may keep over its attempts. [default: 1Gi]")
    ] = None,
    log_spill: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Output kept on this node's disk while no server takes it. [default: 256Mi]"),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", help="Module to load in every function process; repeatable."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Take one task, run it, and end when its result is kept.")
    ] = False,
    idle_exit: Annotated[
        str | None, typer.Option(metavar="DURATION", help="End after so long with nothing to do, e.g. 5m.")
    ] = None,
) -> None:
    """Run the agent that makes this machine a node."""
    from rota.cli.operate.worker_node import WorkerOptions, run_worker

    servers = tuple(
        filter(
            None,
            (part.strip().rstrip("/") for part in (server or os.environ.get("ROTA_SERVER", "")).split(",")),
        )
    )
    if not servers:
        raise typer.BadParameter("name at least one server node", param_hint="--server")
    bad = [address for address in servers if not address.startswith(("http://", "https://"))]
    if bad:
        raise typer.BadParameter(f"{bad[0]!r} is not http://host:port", param_hint="--server")
    key = token or _read_token(token_file) or os.environ.get("ROTA_TOKEN")
    if not key:
        raise typer.BadParameter("give --token, --token-file or ROTA_TOKEN (see `rota token add --role worker`)",
                                 param_hint="--token")  # fmt: skip
    called = name or socket.gethostname()
    trouble = node_name_trouble(called)
    if trouble is not None:
        raise typer.BadParameter(trouble, param_hint="--name")
    checks.data_folder("--data", data)
    options = WorkerOptions(
        servers=servers, token=key, pool=pool, name=called, data=data.absolute(),
        capacity=capacity, labels=_labels(label), ports=ports, imports=tuple(imports or ()),
        mounts=_mounts(mount), no_sandbox=no_sandbox, engine=_engine(engine), roots=_roots(rootfs),
        reserve_bytes=_size("--reserve-disk", reserve_disk),
        artifact_cache_bytes=_bytes("artifact_cache", artifact_cache, "10Gi"),
        outputs_limit_bytes=_bytes("outputs_limit", outputs_limit, "10Gi"),
        checkpoint_limit_bytes=_bytes("checkpoint_limit", checkpoint_limit, "1Gi"),
        log_spill_bytes=_bytes("log_spill", log_spill, "256Mi"),
        devices=_devices(device), once=once, idle_seconds=_idle_seconds(idle_exit),
    )  # fmt: skip
    raise typer.Exit(run_worker(options))


def db_upgrade(database: Database = None) -> None:
    """Bring the schema to the version this code needs. Safe to run twice, and beside running servers."""
    import asyncio

    from rota.store.migrations import upgrade

    version = _reached(lambda: asyncio.run(upgrade(_database(database))))
    sys.stdout.write(f"schema {version.applied}\n")


def db_version(database: Database = None) -> None:
    """Show the schema's version and the one this code needs."""
    import asyncio

    from rota.store.migrations import read_version

    version = _reached(lambda: asyncio.run(read_version(_database(database))))
    sys.stdout.write(f"schema {version.applied}, this code needs {version.known}\n")
    raise typer.Exit(0 if version.current else 1)


def _setting(name: str, flag: str | None, default: str) -> str:
    """A setting that a flag, the environment or rota.toml may give."""
    from rota.settings import SettingsError, choose, read_file

    try:
        return str(choose(name, flag, read_file(None), default))
    except SettingsError as error:
        raise typer.BadParameter(str(error), param_hint="rota.toml") from None


def _bytes(name: str, flag: str | None, default: str) -> int:
    from rota.model.units import bytes_of

    option = f"--{name.replace('_', '-')}"
    try:
        amount = bytes_of(_setting(name, flag, default))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if not 1 <= amount <= 2**40:
        raise typer.BadParameter("from 1 byte to 1Ti", param_hint=option)
    return amount


def _idle_seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        milliseconds = milliseconds_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--idle-exit") from None
    if not 1000 <= milliseconds <= _LONGEST_IDLE_MS:
        raise typer.BadParameter(f"{text[:40]!r} is not from 1s to 30d", param_hint="--idle-exit")
    return milliseconds / 1000


def _days(name: str, flag: str | None, default: str) -> int:
    text = _setting(name, flag, default)
    if not text.isascii() or not text.isdigit() or int(text) > 36_500:
        raise typer.BadParameter(f"{text[:40]!r} is not a number of days from 0 to 36500",
                                 param_hint=f"--{name.replace('_', '-')}")  # fmt: skip
    return int(text)


def _database(given: str | None) -> str:
    url = given or os.environ.get("ROTA_DATABASE")
    if not url:
        raise typer.BadParameter("give --database or ROTA_DATABASE (or use `rota up`, which brings its own)",
                                 param_hint="--database")  # fmt: skip
    if not url.startswith(("postgresql://", "postgres://")):
        raise typer.BadParameter("it must begin with postgresql://", param_hint="--database")
    return url


def _reached(action: Callable[[], T]) -> T:
    """Runs a database action; one sentence and exit code 5 when the database can't be reached."""
    import asyncpg

    try:
        return action()
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        sys.stderr.write(f"rota: the database can't be used: {error or type(error).__name__}\n")
        raise typer.Exit(5) from error


def _labels(texts: list[str] | None) -> dict[str, str]:
    labels = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals or not value:
            raise typer.BadParameter(f"{text!r} is not K=V", param_hint="--label")
        if name.startswith("rota/"):
            raise typer.BadParameter(
                f"{text!r}: labels that begin with rota/ are the agent's own", param_hint="--label"
            )
        labels[name] = value
    return labels


def _devices(texts: list[str] | None) -> tuple[str, ...]:
    """Checked where they are typed."""
    from rota.execute.machine.device_files import parse_devices

    try:
        parse_devices(tuple(texts or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--device") from error
    return tuple(texts or ())


def _mounts(texts: list[str] | None) -> tuple[str, ...]:
    """As they were written: a worker reads them again."""
    from rota.execute.machine.mounts import parse_mount

    for text in texts or ():
        try:
            parse_mount(text)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--mount") from error
    return tuple(texts or ())


def _roots(texts: list[str] | None) -> tuple[str, ...]:
    from rota.execute.machine.mounts import parse_rootfs

    for text in texts or ():
        try:
            parse_rootfs(text)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--rootfs") from error
    return tuple(texts or ())


def _engine(text: str) -> str:
    if text not in ("auto", "podman", "docker", "none"):
        raise typer.BadParameter(f"{text!r} is not auto, podman, docker or none", param_hint="--engine")
    return text


def _read_token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text().strip()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--token-file") from error


def _size(option: str, text: str) -> int:
    return bytes_of(checks.size(option, text) or text)
