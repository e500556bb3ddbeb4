"""How a task is kept apart from everything else: its isolation, its network, the folders it may see. Pure.

What a client asks for is bounded by its plan, by whether an operator trusts its tenant, and by what the pool allows.
Whoever asks for nothing gets walls, unless an operator marked the tenant trusted.
"""

from __future__ import annotations

import re

from rota.admit.facts import PoolFacts, World
from rota.model.catalogue import Category
from rota.model.errors import FaultList
from rota.model.isolation import ISOLATIONS, MOUNT_LABEL, SANDBOX_LABEL, Isolation
from rota.model.request import TaskRequest

DEFAULT_PROCESSES = 1024
MOST_PROCESSES = 100_000
MOST_MOUNTS = 20

_NAME = re.compile(r"^[a-z][a-z0-9-]{0,39}$", re.ASCII)


def isolation_of(
    request: TaskRequest, category: Category | None, pool: PoolFacts | None, world: World, faults: FaultList
) -> Isolation:
    named = request.isolation or (category.isolation if category is not None else None)
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


def check_mounts(request: TaskRequest, faults: FaultList) -> None:
    for name in request.mounts:
        if not _NAME.match(name):
            faults.add("mounts", "invalid-name", f"{name[:40]!r} is not a mount's name: a-z, digits, hyphens")
    if len(request.mounts) > MOST_MOUNTS:
        faults.add("mounts", "out-of-range", f"at most {MOST_MOUNTS} mounts")


def labels_of(request: TaskRequest, isolation: Isolation) -> dict[str, str]:
    """What a node must have for it, beside what the client asks of nodes."""
    needed = {SANDBOX_LABEL: "yes"} if isolation is Isolation.SANDBOX else {}
    return needed | {f"{MOUNT_LABEL}{name}": "yes" for name in request.mounts}
