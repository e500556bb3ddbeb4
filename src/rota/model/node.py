"""A node: its name, and why it may be closed to new work."""

from __future__ import annotations

import enum
import re

# A node's name is part of URLs and is printed on terminals.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def node_name_trouble(name: str) -> str | None:
    """What is wrong with the name, and what would be right; None: nothing."""
    if _NAME.fullmatch(name):
        return None
    rule = "letters, digits, hyphen, underscore and dot, at most 100, beginning with a letter or digit"
    return f"{name[:80]!r} is not a node's name: {rule}"


class Closed(enum.StrEnum):
    """Why a connected node takes no new work. The first comes from an operator, the others from its agent."""

    DRAINING = "draining"  # an operator drains the node
    FULL = "full"  # its disk is below the reserve
    LEAVING = "leaving"  # its agent is about to leave, or came for a single task
