"""How a task is kept apart, and the labels by which nodes say what they can do about it.

Labels that begin with `rota/` are the agent's own: it sets them after proving what they say, and operators can't.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

OWN_LABELS = "rota/"
SANDBOX_LABEL = "rota/sandbox"
CONTAINER_LABEL = "rota/container"
MOUNT_LABEL = "rota/mount-"
ROOTFS_LABEL = "rota/rootfs-"
FILES_LABEL = "rota/files"  # the agent brings artifacts and takes outputs away
PACKAGES_LABEL = "rota/packages"  # the agent runs functions from packages that come with them
ROOTFS = "rootfs:"  # an image that begins so is a folder with a system in it, which the node's operator has named


LONGEST_VARIABLE_BYTES = 60_000  # engines read a container's variables line by line, and lines of no more than this
NODE_NAME = re.compile(r"^[a-z][a-z0-9-]{0,39}$", re.ASCII)  # of a mount or a root that a node's operator names


class Isolation(enum.StrEnum):
    NONE = "none"  # a process like any other of the agent's user; trusted tenants only
    SANDBOX = "sandbox"  # namespaces, a read-only system, a filter, limits
    CONTAINER = "container"  # an image, through the engine on the node; or a named root, behind the sandbox's walls


def is_one_line(value: str) -> bool:
    """Whether a container's variable can hold it."""
    return "\n" not in value and "\r" not in value and len(value.encode()) <= LONGEST_VARIABLE_BYTES


_FOR = "tenant="  # in a mount's label: the node shows it to these alone; in what a task requires: whose it is
_EVERYBODY = "yes"


def mount_offer(tenants: tuple[str, ...]) -> str:
    """What a node says of a mount: for every tenant, or for these."""
    return _FOR + ",".join(tenants) if tenants else _EVERYBODY


def mount_wish(tenant: str) -> str:
    """What a task of this tenant requires of a mount's label."""
    return _FOR + tenant


def meets(labels: Mapping[str, str], name: str, wanted: str) -> bool:
    """Whether a node with these labels has what a task requires. Equal is enough; a mount may be for several."""
    offered = labels.get(name)
    if offered is None or offered == wanted:
        return offered is not None
    if not name.startswith(MOUNT_LABEL) or not wanted.startswith(_FOR):
        return False
    return offered == _EVERYBODY or (
        offered.startswith(_FOR) and wanted.removeprefix(_FOR) in offered.removeprefix(_FOR).split(",")
    )


ISOLATIONS = tuple(one.value for one in Isolation)
