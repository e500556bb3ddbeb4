"""A node: its name, its identity, and why it may be closed to new work."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

_POOL = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
# A node's name is part of URLs and is printed on terminals.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def node_name_trouble(name: str) -> str | None:
    """What is wrong with the name, and what would be right; None: nothing."""
    if _NAME.fullmatch(name):
        return None
    rule = "letters, digits, hyphen, underscore and dot, at most 100, beginning with a letter or digit"
    return f"{name[:80]!r} is not a node's name: {rule}"


def pool_name_trouble(name: str) -> str | None:
    """As the database has it."""
    if _POOL.fullmatch(name):
        return None
    return f"{name[:60]!r} is not a pool's name: lower-case letters, digits and hyphen, at most 40, a letter first"


class Closed(enum.StrEnum):
    """Why a connected node takes no new work. The first comes from an operator, the others from its agent."""

    DRAINING = "draining"  # an operator drains the node
    FULL = "full"  # its disk is below the reserve
    LEAVING = "leaving"  # its agent is about to leave, or came for a single task


@dataclass(frozen=True, slots=True)
class Identity:
    """A node that has proved that it has the key bound to its name, and the boot of its agent."""

    id: int  # of the binding of key and name: another key has another
    pool_id: int
    pool: str
    name: str
    boot: int
