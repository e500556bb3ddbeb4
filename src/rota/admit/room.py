"""The room a task asks for: its tier, each amount it names, its labels, and whether a node could ever hold it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rota.admit.facts import PoolFacts, World
from rota.model.catalogue import Tier
from rota.model.errors import FaultList
from rota.model.isolation import CONTAINER_LABEL, MOUNT_LABEL, SANDBOX_LABEL, meets
from rota.model.request import TaskRequest
from rota.model.resources import Resources, Shape
from rota.model.tenant import Plan
from rota.model.units import bytes_of, bytes_text, count_of, cpu_milli_of, gpus_of, kbit_of, kbit_text

MOST_GPUS = 1024
MOST_PORTS = 100
MOST_CUSTOM = 20
MOST_LABELS = 20

_LABEL = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$", re.ASCII)


def resources_of(request: TaskRequest, world: World, faults: FaultList) -> tuple[str, Resources]:
    """The tier's name, and its amounts with those the request names in their place, one by one."""
    tier = _tier_of(request, world, faults)
    cpu = amount_of("cpu", request.cpu, cpu_milli_of, 1, 10_000_000, "from 0.001 to 10,000 cores", faults)
    memory = amount_of("memory", request.memory, bytes_of, 1_000_000, 2**50, "from 1M to 1P", faults)
    disk = amount_of("disk", request.disk, bytes_of, 0, 2**55, "from 0 to 32P", faults)
    iops = amount_of("iops", request.iops, count_of, 0, 10**9, "from 0 to 1,000,000,000", faults)
    bandwidth = amount_of("bandwidth", request.bandwidth, kbit_of, 0, 10**10, "from 0 to 10T bits per second", faults)
    gpus, gpu_milli = _gpus_of(request, tier, faults)
    if request.ports is not None and not 0 <= request.ports <= MOST_PORTS:
        faults.add("ports", "out-of-range", f"{request.ports} is not from 0 to {MOST_PORTS}")
    _check_custom(request, faults)
    return tier.name, Resources(
        cpu_milli=tier.cpu_milli if cpu is None else cpu,
        memory_bytes=tier.memory_bytes if memory is None else memory,
        disk_bytes=tier.disk_bytes if disk is None else disk,
        gpus=gpus,
        ports=request.ports or 0,
        custom=dict(sorted(request.custom.items())),
        iops=tier.iops if iops is None else iops,
        gpu_milli=gpu_milli,
        bandwidth_kbit=tier.bandwidth_kbit if bandwidth is None else bandwidth,
    )


def _tier_of(request: TaskRequest, world: World, faults: FaultList) -> Tier:
    name = request.tier or "basic"
    tier = world.tiers.get(name)
    if tier is None:
        there = ", ".join(sorted(world.tiers))
        faults.add("tier", "unknown-tier", f"there is no tier {name[:40]!r}; there are {there}")
        return Tier(name, 1000, 0, 0)
    if name not in world.plan.tiers:
        there = ", ".join(world.plan.tiers)
        faults.add("tier", "tier-not-allowed", f"plan {world.plan.name} has the tiers {there}, not {name}")
    return tier


def _gpus_of(request: TaskRequest, tier: Tier, faults: FaultList) -> tuple[int, int]:
    if request.gpus is None:
        return tier.gpus, 0
    try:
        gpus, gpu_milli = gpus_of(request.gpus)
    except ValueError as error:
        faults.add("gpus", "out-of-range", str(error))
        return 0, 0
    if not 0 <= gpus <= MOST_GPUS:
        faults.add("gpus", "out-of-range", f"{request.gpus!r:.40} is not from 0 to {MOST_GPUS}")
        return 0, 0
    return gpus, gpu_milli


def _check_custom(request: TaskRequest, faults: FaultList) -> None:
    for resource, amount in request.custom.items():
        if not _LABEL.match(resource) or not 1 <= amount <= 10**12:
            faults.add(
                "custom",
                "out-of-range",
                f"{resource[:40]!r}: {amount} is not a name with an amount from 1 to 10^12",
            )
    if len(request.custom) > MOST_CUSTOM:
        faults.add("custom", "out-of-range", f"at most {MOST_CUSTOM} custom resources")


def amount_of(
    field: str,
    value: float | str | None,
    convert: Callable[[Any], int],
    least: int,
    most: int,
    words: str,
    faults: FaultList,
) -> int | None:
    """A number in human units within its bounds; None when it was not given, or is at fault."""
    if value is None:
        return None
    try:
        amount = convert(value)
    except ValueError as error:
        faults.add(field, "out-of-range", str(error))
        return None
    if not least <= amount <= most:
        faults.add(field, "out-of-range", f"{value!r:.60} is not {words}")
        return None
    return amount


def check_plan(request: TaskRequest, resources: Resources, plan: Plan, faults: FaultList) -> None:
    """Refused at once if the plan never lets its tenants run so much: it would wait for ever."""
    for field, given, asked, most, said in (
        ("cpu", request.cpu, resources.cpu_milli, plan.running_cpu_milli, "cores"),
        ("memory", request.memory, resources.memory_bytes, plan.running_memory_bytes, "memory"),
    ):
        if most is not None and asked > most:
            faults.add(
                "tier" if given is None else field, "exceeds-plan",
                f"it asks for {_said(said, asked)} {said}; plan {plan.name} runs {_said(said, most)} at once, at most",
            )  # fmt: skip


def pool_of(request: TaskRequest, world: World, faults: FaultList) -> PoolFacts | None:
    return pool_named(request.pool or "default", world, faults)


def pool_named(name: str, world: World, faults: FaultList) -> PoolFacts | None:
    pool = world.pools.get(name)
    if pool is None:
        there = ", ".join(sorted(world.pools))
        faults.add("pool", "unknown-pool", f"there is no pool {name[:40]!r}; there are {there}")
    return pool


def check_labels(request: TaskRequest, faults: FaultList) -> None:
    for name, value in request.require.items():
        if not _LABEL.match(name) or not _LABEL.match(value):
            faults.add(
                "require",
                "invalid-name",
                f"{name[:40]!r}={value[:40]!r} is not a label: letters, digits, . _ / -",
            )
    if len(request.require) > MOST_LABELS:
        faults.add("require", "out-of-range", f"at most {MOST_LABELS} labels")


def unplaceable_waits(request: TaskRequest, faults: FaultList) -> bool:
    """Whether the client would rather wait for a node that could hold it than be refused."""
    if request.unplaceable not in ("refuse", "wait"):
        faults.add("unplaceable", "out-of-range", f"{request.unplaceable[:40]!r} is neither refuse nor wait")
    return request.unplaceable == "wait"


def check_satisfiable(shape: Shape, pool: PoolFacts, faults: FaultList, *, field: str | None = None) -> None:
    """Refused at once if no present node could ever hold it; an empty or elastic pool may yet get one.

    `field`: what is to blame, where that is not the task's own demand.
    """
    if pool.elastic or not pool.nodes:
        return
    fitting = [
        capacity
        for capacity, labels in pool.nodes
        if all(meets(labels, name, value) for name, value in shape.require.items())
    ]
    if any(shape.resources.fits_in(capacity) for capacity in fitting):
        return
    if not fitting:
        lacking = {
            name: value
            for name, value in shape.require.items()
            if not any(meets(labels, name, value) for _, labels in pool.nodes)
        }
        wanted = _wanted(lacking) if lacking else f"all of these: {_wanted(shape.require)}"
        faults.add(field or "require", "unsatisfiable", f"no node of pool {pool.name} has {wanted}")
        return
    faults.add(
        field or "", "unsatisfiable", f"no node of pool {pool.name} could ever hold it: {_short(shape, fitting)}"
    )


def _wanted(require: Mapping[str, str]) -> str:
    words = []
    for name, value in require.items():
        if name == SANDBOX_LABEL:
            words.append("a working sandbox (rota doctor, run there, says why)")
        elif name == CONTAINER_LABEL:
            words.append("a container engine")
        elif name.startswith(MOUNT_LABEL):
            words.append(f"the mount {name[len(MOUNT_LABEL) :]}")
        else:
            words.append(f"{name}={value}")
    return ", ".join(words)


def _short(shape: Shape, nodes: list[Resources]) -> str:
    """What there is too little of, in words."""
    words = []
    for name, amount in _amounts(shape.resources).items():
        most = max(_amounts(node).get(name, 0) for node in nodes)
        if amount > most:
            has = f"the most that one has is {_said(name, most)}" if most else "none has any"
            words.append(f"it asks for {_said(name, amount)} {name}, {has}")
    return "; ".join(words) or "each amount is there on some node, but all of them on none"


_TEXTS: dict[str, Callable[[int], str]] = {
    "cores": lambda amount: f"{amount / 1000:g}",
    "memory": bytes_text,
    "disk": bytes_text,
    "GPUs": lambda amount: f"{amount / 1000:g}",
    "bandwidth": kbit_text,
}


def _amounts(room: Resources) -> dict[str, int]:
    return {
        "cores": room.cpu_milli,
        "memory": room.memory_bytes,
        "disk": room.disk_bytes,
        "disk operations per second": room.iops,
        "bandwidth": room.bandwidth_kbit,
        "GPUs": 1000 * room.gpus + room.gpu_milli,
        "ports": room.ports,
        **room.custom,
    }


def _said(name: str, amount: int) -> str:
    return _TEXTS.get(name, str)(amount)
