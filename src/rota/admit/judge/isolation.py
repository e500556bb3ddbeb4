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
    CPU_QUOTA_LABEL,
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
from rota.model.resources import CpuLimit


def isolation_of(
    request: TaskRequest, category: Category | None, pool: PoolFacts | None, facts: Facts, faults: FaultList
) -> Isolation:
    allowed = pool.isolations if pool is not None else ISOLATIONS
    may_be_plain = facts.trusted and Isolation.NONE in allowed
    usual = None
    if category is not None and request.isolation is None and request.image is None:
        usual = _of_category(category, faults, may_be_plain=may_be_plain)
    named = named_isolation(request, usual, faults)
    if named is not None and named not in ISOLATIONS:
        return Isolation.SANDBOX
    if named is None:
        return Isolation.NONE if may_be_plain else Isolation.SANDBOX
    if named not in allowed:
        name = pool.name if pool is not None else ""
        whose = f", which category {category.name} sets" if category is not None and usual is not None else ""
        detail = f"pool {name} allows {', '.join(allowed)}, not {named}{whose}"
        faults.add("isolation", "isolation-not-allowed", detail)
    if named == Isolation.NONE and not facts.trusted:
        detail = "isolation none is for tenants that an operator trusts; write sandbox"
        faults.add("isolation", "isolation-not-allowed", detail)
    return Isolation(named)


def _of_category(category: Category, faults: FaultList, *, may_be_plain: bool) -> str | None:
    """What the category sets for tasks that name none. Like every default it gives no more than the task could ask for.

    None: it sets none, or a plain process where the task must be isolated.
    """
    if category.isolation == Isolation.CONTAINER:
        detail = (
            f"category {category.name} has isolation container, which needs an image; give one, or name an isolation"
        )
        faults.add("image", "image-missing", detail)
        return None
    if category.isolation == Isolation.NONE and not may_be_plain:
        return None
    return category.isolation


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
    if request.cpu_limit == CpuLimit.QUOTA:
        needed[CPU_QUOTA_LABEL] = "yes"  # its client relies on it; as a plan's default it is kept where it can be
    return needed | {f"{MOUNT_LABEL}{name}": mount_requirement(tenant) for name in request.mounts}
