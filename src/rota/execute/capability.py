"""What an agent tells about itself when it registers: proven capabilities, as labels and as names. Pure."""

from __future__ import annotations

from rota import wire
from rota.execute.keeper_link import KeeperFacts
from rota.execute.linux import cgroup_limits
from rota.execute.processes import spawn_order
from rota.execute.sandbox.container import Engine
from rota.model.isolation import (
    CONTAINER_LABEL,
    CPU_QUOTA_LABEL,
    FILES_LABEL,
    MOUNT_LABEL,
    PACKAGES_LABEL,
    ROOTFS_LABEL,
    SANDBOX_LABEL,
    mount_offer,
)


def own_labels(offer: spawn_order.Offer, facts: KeeperFacts, *, sandbox: bool) -> dict[str, str]:
    """The proven capabilities as labels, which admission and the leader use."""
    labels = [FILES_LABEL, PACKAGES_LABEL, *([SANDBOX_LABEL] if sandbox else [])]
    labels += [CONTAINER_LABEL] if offer.engine is not None else []
    labels += [CPU_QUOTA_LABEL] if cgroup_limits.CPU in facts.groups else []
    mounts = {f"{MOUNT_LABEL}{mount.name}": mount_offer(mount.tenants) for mount in offer.mounts.values()}
    return dict.fromkeys([*labels, *(f"{ROOTFS_LABEL}{name}" for name in offer.roots)], "yes") | mounts


def capabilities_of(facts: KeeperFacts, proven: Engine | None, *, sandbox: bool) -> list[str]:
    """Capabilities and enforceable limits, for people. Leaders read "caps", "secrets", "reload" and "submit"."""
    limits = [f"limit-{name}" for name in facts.groups if name != cgroup_limits.KILL]
    kinds = ["cgroup-v2" if facts.is_v2 else "cgroup-v1"] if facts.groups else []
    isolation = [*(["sandbox"] if sandbox else []), *([f"container-{proven.kind}"] if proven is not None else [])]
    return ["functions", "caps", "secrets", wire.RELOAD, wire.SUBMIT, *isolation, *kinds, *limits]
