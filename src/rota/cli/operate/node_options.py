"""Options of a worker that `rota up` and `rota worker` share: their declarations, and the checks of what was typed.

Whoever adds one here adds it to both commands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.operate.settings_options import size_setting
from rota.cli.shell import checks
from rota.cli.shell.checks import wrong
from rota.execute.images.registries import parse_registries
from rota.execute.machine.device_files import parse_devices
from rota.execute.machine.mounts import parse_mount, parse_rootfs
from rota.model.units import bytes_of, milliseconds_of

_LONGEST_PULL_MS = 24 * 3600 * 1000
_LONGEST_FROZEN_MS = 30 * 24 * 3600 * 1000


def node_options(
    capacity: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=AMOUNT,…",
            help="What to offer, e.g. cpu=8,memory=16G,iops=5k,bandwidth=1G,gpu=1,license=2. (default: detected)",
        ),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="Import this module in every function process; repeatable."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Label that tasks can require; repeatable."),
    ] = None,
    ports: Annotated[
        str | None,
        typer.Option(metavar="FIRST-LAST", help="TCP ports that tasks can be given. (default: 30000-30999)"),
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
            help="Container engine. (default: auto, podman before docker)",
            show_default=False,
        ),
    ] = "auto",
    registry: Annotated[
        list[str] | None,
        typer.Option(
            "--registry",
            metavar="NAME[:PORT]",
            help="Registry that images are pulled from, *.DOMAIN, or none; repeatable. "
            "(default: docker.io, ghcr.io, quay.io and other public ones)",
        ),
    ] = None,
    private_registries: Annotated[
        bool,
        typer.Option(
            "--private-registries", help="Listed registries may have loopback, link-local and private addresses."
        ),
    ] = False,
    pull_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Longest time that the pull of an image may take.")
    ] = "5m",
    image_limit: Annotated[
        str, typer.Option(metavar="SIZE", help="Most that is received of one image (podman only).")
    ] = "10Gi",
    frozen_limit: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How long tasks stay frozen while no server leads this node, before they are ended; 0s: not at all.",
        ),
    ] = "1h",
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
    """Fields of `WorkerOptions`."""
    if engine not in ("auto", "podman", "docker", "none"):
        raise wrong("--engine", f"{engine!r} is not auto, podman, docker or none")
    return {
        "capacity": capacity,
        "imports": tuple(imports or ()),
        "labels": _labels(label or ()),
        "ports": ports,
        "mounts": _checked("--mount", mount, lambda given: [parse_mount(text) for text in given]),
        "no_sandbox": no_sandbox,
        "engine": engine,
        "registries": _checked("--registry", registry, lambda given: parse_registries(given, private=False)),
        "private_registries": private_registries,
        "pull_ms": _between("--pull-timeout", pull_timeout, 1000, _LONGEST_PULL_MS, "from 1s to 1d"),
        "image_bytes": size_setting("image_limit", image_limit, image_limit),
        "frozen_ms": _between("--frozen-limit", frozen_limit, 0, _LONGEST_FROZEN_MS, "from 0s to 30d"),
        "roots": _checked("--rootfs", rootfs, lambda given: [parse_rootfs(text) for text in given]),
        "devices": _checked("--device", device, parse_devices),
    }


def disk_options(
    reserve_disk: Annotated[
        str, typer.Option(metavar="SIZE", help="Take no tasks while the disk of --data has less than this free.")
    ] = "64M",
    artifact_cache: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Cache of fetched artifacts. (default: 10Gi)")
    ] = None,
    outputs_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Limit for the outputs of one attempt. (default: 10Gi)")
    ] = None,
    checkpoint_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Limit for the checkpoint of one task. (default: 1Gi)")
    ] = None,
    log_spill: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Output kept on disk while no server takes it. (default: 256Mi)"),
    ] = None,
) -> dict[str, Any]:
    """Fields of `WorkerOptions`: what its disk is used for."""
    return {
        "reserve_bytes": bytes_of(checks.size("--reserve-disk", reserve_disk) or reserve_disk),
        "artifact_cache_bytes": size_setting("artifact_cache", artifact_cache, "10Gi"),
        "outputs_limit_bytes": size_setting("outputs_limit", outputs_limit, "10Gi"),
        "checkpoint_limit_bytes": size_setting("checkpoint_limit", checkpoint_limit, "1Gi"),
        "log_spill_bytes": size_setting("log_spill", log_spill, "256Mi"),
    }


def _between(option: str, text: str, least_ms: int, most_ms: int, right: str) -> int:
    milliseconds = milliseconds_of(checks.duration(option, text) or text)
    if not least_ms <= milliseconds <= most_ms:
        raise wrong(option, f"{text[:40]!r} is not {right}")
    return milliseconds


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


def token_in(path: Path | None, option: str = "--token-file") -> str | None:
    if path is None:
        return None
    try:
        return path.read_text().strip()
    except OSError as error:
        raise wrong(option, f"{path} can't be read: {error.strerror}") from error


def _checked(option: str, texts: list[str] | None, parse: Callable[[tuple[str, ...]], object]) -> tuple[str, ...]:
    """The texts as they were typed: the worker parses them again."""
    given = tuple(texts or ())
    try:
        parse(given)
    except ValueError as error:
        raise wrong(option, str(error)) from error
    return given
