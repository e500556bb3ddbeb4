"""How a task is kept apart from everything else: its isolation, its network, the folders it may see. Pure.

What a client asks for is bounded by its plan, by whether an operator trusts its tenant, and by what the pool allows.
Whoever asks for nothing gets walls, unless an operator marked the tenant trusted.
"""

from __future__ import annotations

import re

from rota.admit.facts import PoolFacts, World
from rota.model.catalogue import Category
from rota.model.errors import FaultList
from rota.model.isolation import (
    CONTAINER_LABEL,
    FILES_LABEL,
    ISOLATIONS,
    LONGEST_VARIABLE_BYTES,
    MOUNT_LABEL,
    NODE_NAME,
    PACKAGES_LABEL,
    ROOTFS,
    ROOTFS_LABEL,
    SANDBOX_LABEL,
    Isolation,
    is_one_line,
    meets,
    mount_wish,
)
from rota.model.request import TaskRequest

MOST_PROCESSES = 100_000
MOST_MOUNTS = 20
LONGEST_IMAGE = 255

# registry.example:5000/path/name:tag@sha256:digest, as engines read it; never a word they could take for an option.
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
    rf"{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
# Words before a colon that engines take for a place on the node to read an image from.
_TRANSPORTS = re.compile(
    r"(dir|docker|docker-archive|docker-daemon|containers-storage|oci|oci-archive|ostree|sif|tarball):", re.ASCII
)


def isolation_of(
    request: TaskRequest, category: Category | None, pool: PoolFacts | None, world: World, faults: FaultList
) -> Isolation:
    named = request.isolation or (category.isolation if category is not None else None)
    if request.image is not None:
        if request.isolation not in (None, Isolation.CONTAINER):
            faults.add(
                "isolation", "inconsistent-isolation", "a task with an image is a container; leave isolation out"
            )
        named = Isolation.CONTAINER
    elif named == Isolation.CONTAINER:
        faults.add("image", "image-missing", "isolation container needs an image, such as docker.io/library/alpine:3")
    if named is not None and named not in ISOLATIONS:
        faults.add("isolation", "out-of-range", f"{named[:40]!r} is not one of {', '.join(ISOLATIONS)}")
        return Isolation.SANDBOX
    allowed = pool.isolations if pool is not None else ISOLATIONS
    if named is None:
        return Isolation.NONE if world.trusted and Isolation.NONE in allowed else Isolation.SANDBOX
    if named not in allowed:
        name = pool.name if pool is not None else ""
        faults.add("isolation", "isolation-not-allowed", f"pool {name} allows {', '.join(allowed)}, not {named}")
    if named == Isolation.NONE and not world.trusted:
        faults.add(
            "isolation", "isolation-not-allowed", "only tenants that an operator trusts run without walls; say sandbox"
        )
    return Isolation(named)


def check_network(request: TaskRequest, world: World, faults: FaultList) -> None:
    if request.network and not world.plan.network:
        faults.add("network", "network-not-allowed", f"plan {world.plan.name} gives its tasks no network")


def check_processes(request: TaskRequest, faults: FaultList) -> None:
    if request.processes is not None and not 1 <= request.processes <= MOST_PROCESSES:
        faults.add("processes", "out-of-range", f"{request.processes} is not from 1 to {MOST_PROCESSES}")


def check_mounts(request: TaskRequest, pool: PoolFacts | None, world: World, faults: FaultList) -> None:
    for name in request.mounts:
        if not NODE_NAME.match(name):
            faults.add("mounts", "invalid-name", f"{name[:40]!r} is not a mount's name: a-z, digits, hyphens")
    if len(request.mounts) > MOST_MOUNTS:
        faults.add("mounts", "out-of-range", f"at most {MOST_MOUNTS} mounts")
    for name in request.mounts if pool is not None else ():
        label = f"{MOUNT_LABEL}{name}"
        offering = [labels for _, labels in pool.nodes if label in labels] if pool is not None else []
        if offering and not any(meets(labels, label, mount_wish(world.tenant)) for labels in offering):
            why = (
                f"the mount {name} of pool {request.pool or 'default'} is for other tenants; its operator says for whom"
            )
            faults.add("mounts", "mount-not-allowed", why)


def check_image(request: TaskRequest, faults: FaultList) -> None:
    if request.image is None:
        return
    name = request.image
    if name.startswith(ROOTFS):
        if not NODE_NAME.match(name.removeprefix(ROOTFS)):
            faults.add(
                "image", "invalid-image", f"{name[:80]!r} names no root; write rootfs:NAME with a-z, 0-9, hyphens"
            )
    elif len(name) > LONGEST_IMAGE or not _IMAGE.fullmatch(name) or _TRANSPORTS.match(name):
        faults.add("image", "invalid-image", f"{name[:80]!r} is not an image; write docker.io/library/alpine:3")
    for field in ("path", "function"):
        if getattr(request, field) is not None:
            faults.add("image", "invalid-command", f"an image goes with command, script or upload, not with {field}")
    if not name.startswith(ROOTFS):
        for variable, value in request.env.items():
            if not is_one_line(value):
                pointer = f"env/{variable[:80].replace('~', '~0').replace('/', '~1')}"
                words = f"a container's variables are one line of at most {LONGEST_VARIABLE_BYTES} bytes each"
                faults.add(pointer, "invalid-character", f"{variable[:80]}: {words}")


def labels_of(request: TaskRequest, isolation: Isolation, tenant: str) -> dict[str, str]:
    """What a node must have for it, beside what the client asks of nodes."""
    needed = {SANDBOX_LABEL: "yes"} if isolation is Isolation.SANDBOX else {}
    if request.image is not None and request.image.startswith(ROOTFS):
        needed = {f"{ROOTFS_LABEL}{request.image.removeprefix(ROOTFS)}": "yes"}
    elif isolation is Isolation.CONTAINER:
        needed = {CONTAINER_LABEL: "yes"}
    if request.files or request.outputs or request.upload is not None or request.archive is not None:
        needed[FILES_LABEL] = "yes"
    if request.archive is not None and isolation is not Isolation.NONE:
        needed[SANDBOX_LABEL] = "yes"  # archives are unpacked behind walls, for containers too
    if request.package is not None:
        needed[PACKAGES_LABEL] = "yes"
    return needed | {f"{MOUNT_LABEL}{name}": mount_wish(tenant) for name in request.mounts}
