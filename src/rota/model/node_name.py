"""What a node may be called. Its name is part of addresses and is printed on terminals: plain characters only."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def node_name_trouble(name: str) -> str | None:
    """What is wrong with it, and what would be right; None: nothing."""
    if _NAME.fullmatch(name):
        return None
    rule = "letters, digits, hyphen, underscore and dot, at most 100, beginning with a letter or digit"
    return f"{name[:80]!r} is not a node's name: {rule}"
