"""The isolation of a task, and the labels by which nodes offer it.

Labels that begin with `rota/` are set only by the agent, after it has tested the feature.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

SANDBOX_LABEL = "rota/sandbox"
CONTAINER_LABEL = "rota/container"
MOUNT_LABEL = "rota/mount-"
ROOTFS_LABEL = "rota/rootfs-"
FILES_LABEL = "rota/files"  # the agent fetches artifacts and stores outputs
CPU_QUOTA_LABEL = "rota/cpu-quota"  # the node's kernel holds tasks to a quota of CPU
PACKAGES_LABEL = "rota/packages"  # the agent runs functions from uploaded packages
ROOTFS = "rootfs:"  # an image with this prefix is a root that the node's operator has named


LONGEST_VARIABLE_BYTES = 60_000  # engines read a container's variables as lines of bounded length
NODE_NAME = re.compile(r"^[a-z][a-z0-9-]{0,39}\Z", re.ASCII)  # of a mount or a root that a node's operator names


class Isolation(enum.StrEnum):
    NONE = "none"  # a plain process of the agent's user; only for trusted tenants
    SANDBOX = "sandbox"  # namespaces, a read-only system, a system call filter, limits
    CONTAINER = "container"  # an image, run by the node's engine; or a named root in a sandbox


def is_one_line(value: str) -> bool:
    """Whether a container's variable can hold the value."""
    return "\n" not in value and "\r" not in value and len(value.encode()) <= LONGEST_VARIABLE_BYTES


_FOR = "tenant="  # in a mount's label: the tenants it is for; in a task's requirement: the tenant of the task
_EVERYBODY = "yes"


def mount_offer(tenants: tuple[str, ...]) -> str:
    """The value of a mount's label on a node: for every tenant, or for these."""
    return _FOR + ",".join(tenants) if tenants else _EVERYBODY


def mount_requirement(tenant: str) -> str:
    """The value that a task of this tenant requires of a mount's label."""
    return _FOR + tenant


def meets(labels: Mapping[str, str], name: str, wanted: str) -> bool:
    """Whether a node with these labels meets a requirement: the values are equal, or the mount is for the tenant."""
    offered = labels.get(name)
    if offered is None or offered == wanted:
        return offered is not None
    if not name.startswith(MOUNT_LABEL) or not wanted.startswith(_FOR):
        return False
    return offered == _EVERYBODY or (
        offered.startswith(_FOR) and wanted.removeprefix(_FOR) in offered.removeprefix(_FOR).split(",")
    )


ISOLATIONS = tuple(one.value for one in Isolation)
