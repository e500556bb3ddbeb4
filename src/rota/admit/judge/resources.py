"""Judges a task's resources: tier, own amounts, pool, and whether any node could ever hold it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rota.admit.judge.facts import Facts, PoolFacts
from rota.model.catalogue import Tier
from rota.model.errors import FaultList
from rota.model.isolation import CONTAINER_LABEL, CPU_QUOTA_LABEL, MOUNT_LABEL, ROOTFS_LABEL, SANDBOX_LABEL, meets
from rota.model.request.needs import asked_of, check_cpu_limit
from rota.model.request.task_request import TaskRequest
from rota.model.resources import CpuLimit, Resources, Shape, usual_cpu_limit
from rota.model.tenant import Plan
from rota.model.units import bytes_text, kbit_text


def resources_of(request: TaskRequest, facts: Facts, faults: FaultList) -> tuple[str, Resources]:
    """The tier's name and amounts, each replaced by the request's own amount if given."""
    tier = _tier_of(request, facts, faults)
    asked = asked_of(request, faults)
    gpus, gpu_milli = (tier.gpus, 0) if asked.gpus is None else asked.gpus
    return tier.name, Resources(
        cpu_milli=tier.cpu_milli if asked.cpu_milli is None else asked.cpu_milli,
        memory_bytes=tier.memory_bytes if asked.memory_bytes is None else asked.memory_bytes,
        disk_bytes=tier.disk_bytes if asked.disk_bytes is None else asked.disk_bytes,
        gpus=gpus,
        ports=request.ports or 0,
        custom=dict(sorted(request.custom.items())),
        iops=tier.iops if asked.iops is None else asked.iops,
        gpu_milli=gpu_milli,
        bandwidth_kbit=tier.bandwidth_kbit if asked.bandwidth_kbit is None else asked.bandwidth_kbit,
    )


def _tier_of(request: TaskRequest, facts: Facts, faults: FaultList) -> Tier:
    name = request.tier or "basic"
    tier = facts.tiers.get(name)
    if tier is None:
        there = ", ".join(sorted(facts.tiers))
        faults.add("tier", "unknown-tier", f"there is no tier {name[:40]!r}; there are {there}")
        return Tier(name, 1000, 0, 0)
    if facts.plan.tiers is not None and name not in facts.plan.tiers:
        there = ", ".join(facts.plan.tiers)
        faults.add("tier", "tier-not-allowed", f"plan {facts.plan.name} has the tiers {there}, not {name}")
    return tier


def cpu_limit_of(request: TaskRequest, facts: Facts, faults: FaultList) -> CpuLimit:
    """How its CPU is held. Its client may choose the quota; bursts only if its plan gives them to all tasks."""
    check_cpu_limit(request, faults)
    usual = usual_cpu_limit(facts.plan.cpu_limit, trusted=facts.trusted)
    if request.cpu_limit == CpuLimit.BURST and usual is not CpuLimit.BURST:
        detail = (
            f"tasks of plan {facts.plan.name} get no more CPU than their grant; leave cpu_limit out, or ask for cpu"
        )
        faults.add("cpu_limit", "cpu-limit-not-allowed", detail)
    return CpuLimit.QUOTA if request.cpu_limit == CpuLimit.QUOTA else usual


def check_plan(request: TaskRequest, resources: Resources, plan: Plan, faults: FaultList) -> None:
    """Refuses a task that is larger than all the plan lets run at once: it would wait for ever."""
    for field, given, asked, most, unit in (
        ("cpu", request.cpu, resources.cpu_milli, plan.running_cpu_milli, "cores"),
        ("memory", request.memory, resources.memory_bytes, plan.running_memory_bytes, "memory"),
    ):
        if most is not None and asked > most:
            limit = f"plan {plan.name} runs {_text(unit, most)} at once, at most"
            detail = f"it asks for {_text(unit, asked)} {unit}; {limit}"
            faults.add("tier" if given is None else field, "exceeds-plan", detail)


def pool_named(name: str, facts: Facts, faults: FaultList) -> PoolFacts | None:
    pool = facts.pools.get(name)
    if pool is None:
        there = ", ".join(sorted(facts.pools))
        faults.add("pool", "unknown-pool", f"there is no pool {name[:40]!r}; there are {there}")
    return pool


def check_satisfiable(shape: Shape, pool: PoolFacts, faults: FaultList, *, field: str | None = None) -> None:
    """Refuses a task that no present node could ever hold. An empty or elastic pool may get such a node.

    `field`: the field to blame, if not the task's own demand.
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
        if not lacking:
            detail = f"no node of pool {pool.name} has all of these: {_requirements(shape.require)}"
            faults.add(field or "require", "unsatisfiable", detail)
        for blamed, labels in _by_field(lacking).items():
            detail = f"no node of pool {pool.name} has {_requirements(labels)}{_there(blamed, labels, pool)}"
            faults.add(field or blamed, "unsatisfiable", detail)
        return
    detail = f"no node of pool {pool.name} could ever hold it: {_short(shape, fitting)}"
    faults.add(field or "", "unsatisfiable", detail)


def _by_field(require: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Labels by the field of the request that asked for them."""
    found: dict[str, dict[str, str]] = {}
    for name, value in require.items():
        field = "require"
        if name.startswith(MOUNT_LABEL):
            field = "mounts"
        elif name.startswith(ROOTFS_LABEL) or name == CONTAINER_LABEL:
            field = "image"
        elif name == CPU_QUOTA_LABEL:
            field = "cpu_limit"
        found.setdefault(field, {})[name] = value
    return found


def _there(field: str, lacking: Mapping[str, str], pool: PoolFacts) -> str:
    """The mounts or roots that nodes offer to this tenant."""
    prefix = {"mounts": MOUNT_LABEL, "image": ROOTFS_LABEL}.get(field)
    if prefix is None:
        return ""
    wish = next(iter(lacking.values()))
    offered = {
        name.removeprefix(prefix)
        for _, labels in pool.nodes
        for name in labels
        if name.startswith(prefix) and meets(labels, name, wish)
    }
    what = "rootfs:" if field == "image" else ""
    return f"; there are {', '.join(what + name for name in sorted(offered)[:20])}" if offered else ""


def _requirements(require: Mapping[str, str]) -> str:
    parts = []
    for name, value in require.items():
        if name == SANDBOX_LABEL:
            parts.append("a working sandbox (run rota doctor on a node to see why)")
        elif name == CPU_QUOTA_LABEL:
            parts.append("CPU quotas that its kernel enforces (run rota doctor on a node to see why)")
        elif name == CONTAINER_LABEL:
            parts.append("a container engine")
        elif name.startswith(MOUNT_LABEL):
            parts.append(f"the mount {name[len(MOUNT_LABEL) :]}")
        elif name.startswith(ROOTFS_LABEL):
            parts.append(f"the root {name[len(ROOTFS_LABEL) :]}")
        else:
            parts.append(f"{name}={value}")
    return ", ".join(parts)


def _short(shape: Shape, nodes: list[Resources]) -> str:
    """The amounts that no node has, as text."""
    parts = []
    for name, amount in _amounts(shape.resources).items():
        most = max(_amounts(node).get(name, 0) for node in nodes)
        if amount > most:
            has = f"the most that one has is {_text(name, most)}" if most else "none has any"
            parts.append(f"it asks for {_text(name, amount)} {name}, {has}")
    return "; ".join(parts) or "each amount is there on some node, but all of them on none"


_TEXTS: dict[str, Callable[[int], str]] = {
    "cores": lambda amount: f"{amount / 1000:g}",
    "memory": bytes_text,
    "disk": bytes_text,
    "GPUs": lambda amount: f"{amount / 1000:g}",
    "bandwidth": kbit_text,
}


def _amounts(resources: Resources) -> dict[str, int]:
    return {
        "cores": resources.cpu_milli,
        "memory": resources.memory_bytes,
        "disk": resources.disk_bytes,
        "disk operations per second": resources.iops,
        "bandwidth": resources.bandwidth_kbit,
        "GPUs": 1000 * resources.gpus + resources.gpu_milli,
        "ports": resources.ports,
        **resources.custom,
    }


def _text(name: str, amount: int) -> str:
    return _TEXTS.get(name, str)(amount)
