"""Judges a task's isolation, network and mounts. Pure.

The plan, the operator's trust in the tenant and the pool limit what a client may ask for. The default is a sandbox,
unless an operator marked the tenant trusted.
"""

from __future__ import annotations

from rota.admit.judge.facts import Facts, PoolFacts
from rota.model.catalogue import Category
from rota.model.errors import FaultList
from rota.model.isolation import (
    CONTAINER_LABEL,
    FILES_LABEL,
    ISOLATIONS,
    MOUNT_LABEL,
    PACKAGES_LABEL,
    ROOTFS,
    ROOTFS_LABEL,
    SANDBOX_LABEL,
    Isolation,
    meets,
    mount_requirement,
)
from rota.model.request.needs import check_mount_names, named_isolation
from rota.model.request.task_request import TaskRequest


def isolation_of(
    request: TaskRequest, category: Category | None, pool: PoolFacts | None, facts: Facts, faults: FaultList
) -> Isolation:
    named = named_isolation(request, category.isolation if category is not None else None, faults)
    if named is not None and named not in ISOLATIONS:
        return Isolation.SANDBOX
    allowed = pool.isolations if pool is not None else ISOLATIONS
    if named is None:
        return Isolation.NONE if facts.trusted and Isolation.NONE in allowed else Isolation.SANDBOX
    if named not in allowed:
        name = pool.name if pool is not None else ""
        faults.add("isolation", "isolation-not-allowed", f"pool {name} allows {', '.join(allowed)}, not {named}")
    if named == Isolation.NONE and not facts.trusted:
        detail = "isolation none is for tenants that an operator trusts; write sandbox"
        faults.add("isolation", "isolation-not-allowed", detail)
    return Isolation(named)


def check_network(request: TaskRequest, facts: Facts, faults: FaultList) -> None:
    if request.network and not facts.plan.network:
        faults.add("network", "network-not-allowed", f"plan {facts.plan.name} does not allow network; leave it out")


def check_mounts(request: TaskRequest, pool: PoolFacts | None, facts: Facts, faults: FaultList) -> None:
    check_mount_names(request, faults)
    for name in request.mounts:
        label = f"{MOUNT_LABEL}{name}"
        offering = [labels for _, labels in pool.nodes if label in labels] if pool is not None else []
        if offering and not any(meets(labels, label, mount_requirement(facts.tenant)) for labels in offering):
            why = f"the mount {name} of pool {request.pool or 'default'} is for other tenants; ask its operator"
            faults.add("mounts", "mount-not-allowed", why)


def labels_of(request: TaskRequest, isolation: Isolation, tenant: str) -> dict[str, str]:
    """The labels that a node must have for the task, beside those that the client requires."""
    needed = {SANDBOX_LABEL: "yes"} if isolation is Isolation.SANDBOX else {}
    if request.image is not None and request.image.startswith(ROOTFS):
        needed = {f"{ROOTFS_LABEL}{request.image.removeprefix(ROOTFS)}": "yes"}
    elif isolation is Isolation.CONTAINER:
        needed = {CONTAINER_LABEL: "yes"}
    if request.files or request.outputs or request.upload is not None or request.archive is not None:
        needed[FILES_LABEL] = "yes"
    if request.archive is not None and isolation is not Isolation.NONE:
        needed[SANDBOX_LABEL] = "yes"  # archives are unpacked in a sandbox, for containers too
    if request.package is not None:
        needed[PACKAGES_LABEL] = "yes"
    return needed | {f"{MOUNT_LABEL}{name}": mount_requirement(tenant) for name in request.mounts}
