"""Rules for what a task needs: resources, isolation, files. Pure; the counterpart of `rules.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rota.model.artifact import digits_of, path_fault, reserved_fault
from rota.model.errors import Fault, FaultList
from rota.model.isolation import ISOLATIONS, LONGEST_VARIABLE_BYTES, NODE_NAME, ROOTFS, Isolation, is_one_line
from rota.model.request.rules import amount_of, check_work
from rota.model.request.structure import pointer_part
from rota.model.request.task_request import TaskRequest
from rota.model.resources import CPU_LIMITS
from rota.model.task import Kind
from rota.model.units import bytes_of, count_of, cpu_milli_of, gpus_of, kbit_of

MOST_GPUS = 1024
MOST_PORTS = 100
MOST_CUSTOM = 20
MOST_LABELS = 20
MOST_FILES = 100
MOST_PATTERNS = 100
MOST_PROCESSES = 100_000
MOST_MOUNTS = 20
LEAST_LOG_BYTES = 1024
MOST_LOG_BYTES = 2**40
DEFAULT_LOG_BYTES = 1024 * 1024
LONGEST_IMAGE = 255

# registry.example:5000/path/name:tag@sha256:digest, as engines read it; never something they could take for an option.
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
    rf"{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
# Prefixes by which engines read an image from somewhere on the node.
_TRANSPORTS = re.compile(
    r"(dir|docker|docker-archive|docker-daemon|containers-storage|oci|oci-archive|ostree|sif|tarball):", re.ASCII
)

_LABEL = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}\Z", re.ASCII)


def faults_of(request: TaskRequest, pointer: str = "") -> list[Fault]:
    """Every fault of a request that does not depend on the tenant, the pool or the catalogue."""
    faults = FaultList(pointer)
    kind = check_work(request, faults)
    check_artifact_names(request, faults)
    if request.package is not None:
        check_package(request, kind, faults)
    elif kind is Kind.FUNCTION:
        check_no_folder(request, faults)
    check_files(request, faults)
    check_outputs(request, faults)
    asked_of(request, faults)
    unplaceable_waits(request, faults)
    named_isolation(request, None, faults)
    check_cpu_limit(request, faults)
    check_processes(request, faults)
    log_limit_of(request, faults)
    check_mount_names(request, faults)
    check_image(request, faults)
    check_labels(request, faults)
    return faults.faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The amounts that the request names; None: those of its tier."""

    cpu_milli: int | None
    memory_bytes: int | None
    disk_bytes: int | None
    iops: int | None
    bandwidth_kbit: int | None
    gpus: tuple[int, int] | None  # whole ones, or thousandths of one


def asked_of(request: TaskRequest, faults: FaultList) -> Asked:
    cpu = amount_of("cpu", request.cpu, cpu_milli_of, 1, 10_000_000, "from 0.001 to 10,000 cores", faults)
    memory = amount_of("memory", request.memory, bytes_of, 1_000_000, 2**50, "from 1M to 1P", faults)
    disk = amount_of("disk", request.disk, bytes_of, 0, 2**55, "from 0 to 32P", faults)
    iops = amount_of("iops", request.iops, count_of, 0, 10**9, "from 0 to 1,000,000,000", faults)
    bandwidth = amount_of("bandwidth", request.bandwidth, kbit_of, 0, 10**10, "from 0 to 10T bits per second", faults)
    gpus = _gpus_of(request, faults)
    if request.ports is not None and not 0 <= request.ports <= MOST_PORTS:
        faults.add("ports", "out-of-range", f"ports is a whole number from 0 to {MOST_PORTS}, not {request.ports}")
    _check_custom(request, faults)
    return Asked(cpu_milli=cpu, memory_bytes=memory, disk_bytes=disk, iops=iops, bandwidth_kbit=bandwidth, gpus=gpus)


def _gpus_of(request: TaskRequest, faults: FaultList) -> tuple[int, int] | None:
    if request.gpus is None:
        return None
    try:
        gpus, gpu_milli = gpus_of(request.gpus)
    except ValueError as error:
        faults.add("gpus", "out-of-range", str(error))
        return 0, 0
    if not 0 <= gpus <= MOST_GPUS:
        faults.add("gpus", "out-of-range", f"gpus is a number from 0 to {MOST_GPUS}, not {request.gpus!r:.40}")
        return 0, 0
    return gpus, gpu_milli


def _check_custom(request: TaskRequest, faults: FaultList) -> None:
    for resource, amount in request.custom.items():
        if not _LABEL.match(resource) or not 1 <= amount <= 10**12:
            detail = f"{resource[:40]!r}: {amount} is not a name with an amount from 1 to 10^12"
            faults.add("custom", "out-of-range", detail)
    if len(request.custom) > MOST_CUSTOM:
        faults.add(
            "custom",
            "out-of-range",
            f"a task asks for at most {MOST_CUSTOM} custom resources, not {len(request.custom)}",
        )


def check_labels(request: TaskRequest, faults: FaultList) -> None:
    for name, value in request.require.items():
        if not _LABEL.match(name) or not _LABEL.match(value):
            detail = f"{name[:40]!r}={value[:40]!r} is not a label: letters, digits, . _ / -"
            faults.add("require", "invalid-name", detail)
    if len(request.require) > MOST_LABELS:
        faults.add(
            "require", "out-of-range", f"a task requires at most {MOST_LABELS} labels, not {len(request.require)}"
        )


def unplaceable_waits(request: TaskRequest, faults: FaultList) -> bool:
    """Whether the task waits for a node that could hold it, instead of being refused."""
    if request.unplaceable not in ("refuse", "wait"):
        faults.add("unplaceable", "out-of-range", f"unplaceable is refuse or wait, not {request.unplaceable[:40]!r}")
    return request.unplaceable == "wait"


def named_isolation(request: TaskRequest, usual: str | None, faults: FaultList) -> str | None:
    """The isolation that the request names, else `usual`; an image means container."""
    named = request.isolation or usual
    if request.image is not None:
        if request.isolation not in (None, Isolation.CONTAINER):
            detail = "a task with an image is a container; leave isolation out"
            faults.add("isolation", "inconsistent-isolation", detail)
        named = Isolation.CONTAINER
    elif named == Isolation.CONTAINER:
        faults.add("image", "image-missing", "isolation container needs an image, such as docker.io/library/alpine:3")
    if named is not None and named not in ISOLATIONS:
        faults.add("isolation", "out-of-range", f"{named[:40]!r} is not one of {', '.join(ISOLATIONS)}")
    return named


def check_cpu_limit(request: TaskRequest, faults: FaultList) -> None:
    if request.cpu_limit is not None and request.cpu_limit not in CPU_LIMITS:
        faults.add("cpu_limit", "out-of-range", f"{request.cpu_limit[:40]!r} is neither {' nor '.join(CPU_LIMITS)}")


def check_processes(request: TaskRequest, faults: FaultList) -> None:
    if request.processes is not None and not 1 <= request.processes <= MOST_PROCESSES:
        faults.add(
            "processes",
            "out-of-range",
            f"processes is a whole number from 1 to {MOST_PROCESSES:,}, not {request.processes}",
        )


def log_limit_of(request: TaskRequest, faults: FaultList) -> int | None:
    """How much output of each attempt is kept; None: as the server does."""
    least, most = LEAST_LOG_BYTES, MOST_LOG_BYTES
    return amount_of("log_limit", request.log_limit, bytes_of, least, most, "from 1Ki to 1Ti", faults)


def check_mount_names(request: TaskRequest, faults: FaultList) -> None:
    for position, name in enumerate(request.mounts[:MOST_MOUNTS]):
        if not NODE_NAME.match(name):
            detail = f"{name[:40]!r} is not a mount's name: a-z, digits, hyphens"
            faults.add(f"mounts/{position}", "invalid-name", detail)
    if len(request.mounts) > MOST_MOUNTS:
        faults.add("mounts", "out-of-range", f"a task has at most {MOST_MOUNTS} mounts, not {len(request.mounts)}")


def check_image(request: TaskRequest, faults: FaultList) -> None:
    if request.image is None:
        return
    name = request.image
    if name.startswith(ROOTFS):
        if not NODE_NAME.match(name.removeprefix(ROOTFS)):
            detail = f"{name[:80]!r} is not a root; write rootfs:NAME with a-z, 0-9, hyphens"
            faults.add("image", "invalid-image", detail)
    elif len(name) > LONGEST_IMAGE or not _IMAGE.fullmatch(name) or _TRANSPORTS.match(name):
        faults.add("image", "invalid-image", f"{name[:80]!r} is not an image; write docker.io/library/alpine:3")
    for field in ("path", "function"):
        if getattr(request, field) is not None:
            faults.add("image", "invalid-command", f"an image goes with command, script or upload, not with {field}")
    if not name.startswith(ROOTFS):
        for variable, value in request.env.items():
            if not is_one_line(value):
                pointer = f"env/{variable[:80].replace('~', '~0').replace('/', '~1')}"
                detail = f"a container's variables are one line of at most {LONGEST_VARIABLE_BYTES} bytes each"
                faults.add(pointer, "invalid-character", f"{variable[:80]}: {detail}")


def check_package(request: TaskRequest, kind: Kind | None, faults: FaultList) -> bool:
    if kind is not Kind.FUNCTION:
        faults.add("package", "invalid-command", "a package is a function's code; other work brings an archive")
        return False
    check_no_folder(request, faults)
    return True


def check_no_folder(request: TaskRequest, faults: FaultList) -> None:
    for name in ("files", "archive", "outputs"):
        if getattr(request, name):
            faults.add(name, "invalid-command", f"a function has no folder of its own; {name} go with other work")


def check_artifact_names(request: TaskRequest, faults: FaultList) -> None:
    named = [(name, getattr(request, name)) for name in ("upload", "archive", "package")]
    named += [(f"files/{pointer_part(path[:80])}", artifact) for path, artifact in request.files.items()]
    for pointer, artifact in named:
        if artifact is not None and digits_of(artifact) is None:
            detail = "is not an artifact; write sha256:… or 8 to 64 of its digits"
            faults.add(pointer, "unknown-artifact", f"{artifact[:80]!r} {detail}")


def check_files(request: TaskRequest, faults: FaultList) -> None:
    if len(request.files) > MOST_FILES:
        faults.add("files", "out-of-range", f"a task brings at most {MOST_FILES} files; put them into an archive")
        return
    right: list[str] = []
    for path in request.files:
        pointer = f"files/{pointer_part(path[:80])}"
        fault = path_fault(path)
        if fault is not None:
            faults.add(pointer, "invalid-path", f"{path[:80]!r} is not a path within the work folder: {fault}")
        elif (reserved := reserved_fault(path)) is not None:
            faults.add(pointer, "invalid-path", f"{path[:80]!r}: {reserved}")
        elif any(f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/") for other in right):
            faults.add(
                pointer,
                "invalid-path",
                f"{path[:80]!r} is named as a file and, by another path, as a folder; choose another path",
            )
        else:
            right.append(path)


def check_outputs(request: TaskRequest, faults: FaultList) -> None:
    if len(request.outputs) > MOST_PATTERNS:
        faults.add(
            "outputs",
            "out-of-range",
            f"a task has at most {MOST_PATTERNS} patterns of outputs, not {len(request.outputs)}",
        )
    for position, pattern in enumerate(request.outputs[:MOST_PATTERNS]):
        fault = path_fault(pattern)
        if fault is not None:
            detail = f"{pattern[:80]!r} is not a pattern inside the work folder: {fault}"
            faults.add(f"outputs/{position}", "invalid-path", detail)
        elif pattern.count("**") > 1 or any("**" in part and part != "**" for part in pattern.split("/")):
            detail = f"{pattern[:80]!r}: ** may be there once, with nothing else between its slashes"
            faults.add(f"outputs/{position}", "invalid-path", detail)
