"""Options of a worker that `rota up` and `rota worker` share: their declarations, and the checks of what was typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.shell.checks import wrong
from rota.execute.machine.device_files import parse_devices
from rota.execute.machine.mounts import parse_mount, parse_rootfs

Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="Import this module in every function process; repeatable."),
]


def node_options(
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Label that tasks can require; repeatable."),
    ] = None,
    ports: Annotated[
        str | None,
        typer.Option(metavar="FIRST-LAST", help="TCP ports that tasks can be given. [default: 30000-30999]"),
    ] = None,
    mount: Annotated[
        list[str] | None,
        typer.Option(
            "--mount",
            metavar="NAME:FOLDER[:ro|rw][:tenant=A,B]",
            help="Folder that sandboxed tasks (of these tenants only) can request by name; repeatable.",
        ),
    ] = None,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Offer no sandbox; only trusted tasks run here.")
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            metavar="auto|podman|docker|none",
            envvar="ROTA_ENGINE",
            show_envvar=False,
            help="Container engine. [default: auto, podman before docker]",
            show_default=False,
        ),
    ] = "auto",
    rootfs: Annotated[
        list[str] | None,
        typer.Option("--rootfs", metavar="NAME:FOLDER", help="Unpacked root file system for tasks; repeatable."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            metavar="NAME[NUMBER]=FILE,…",
            help="Files of a device, visible only to tasks that hold it: gpu0=/dev/nvidia0; repeatable.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Fields of `UpOptions` and `WorkerOptions`."""
    if engine not in ("auto", "podman", "docker", "none"):
        raise wrong("--engine", f"{engine!r} is not auto, podman, docker or none")
    return {
        "labels": _labels(label or ()),
        "ports": ports,
        "mounts": _checked("--mount", mount, lambda given: [parse_mount(text) for text in given]),
        "no_sandbox": no_sandbox,
        "engine": engine,
        "roots": _checked("--rootfs", rootfs, lambda given: [parse_rootfs(text) for text in given]),
        "devices": _checked("--device", device, parse_devices),
    }


def _labels(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not value:
            raise wrong("--label", f"{text!r} is not NAME=VALUE")
        if name.startswith("rota/"):
            raise wrong("--label", f"{text!r}: labels that begin with rota/ are the agent's own")
        found[name] = value
    return found


def token_in(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text().strip()
    except OSError as error:
        raise wrong("--token-file", f"{path} can't be read: {error.strerror}") from error


def _checked(option: str, texts: list[str] | None, parse: Callable[[tuple[str, ...]], object]) -> tuple[str, ...]:
    """The texts as they were typed: the worker parses them again."""
    given = tuple(texts or ())
    try:
        parse(given)
    except ValueError as error:
        raise wrong(option, str(error)) from error
    return given
