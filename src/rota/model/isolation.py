"""How a task is kept apart, and the labels by which nodes say what they can do about it.

Labels that begin with `rota/` are the agent's own: it sets them after proving what they say, and operators can't.
"""

from __future__ import annotations

import enum

OWN_LABELS = "rota/"
SANDBOX_LABEL = "rota/sandbox"
CONTAINER_LABEL = "rota/container"
MOUNT_LABEL = "rota/mount-"


class Isolation(enum.StrEnum):
    NONE = "none"  # a process like any other of the agent's user; trusted tenants only
    SANDBOX = "sandbox"  # namespaces, a read-only system, a filter, limits
    CONTAINER = "container"  # an image, through the engine on the node


ISOLATIONS = tuple(one.value for one in Isolation)
