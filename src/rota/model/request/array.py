"""Parses arrays: `0-999%50`, `1,5,9`, `0-90:10`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_ITEMS = 10_000
LARGEST_INDEX = 2**31 - 1

_PART = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?", re.ASCII)
_RIGHT = "write 0-999, 0-999%50 for 50 at once, 0-90:10 for every tenth, or 1,5,9"


@dataclass(frozen=True, slots=True)
class Array:
    """The indexes in the given order, and how many of its tasks may run at once; None: no limit."""

    indexes: tuple[int, ...]
    at_once: int | None = None


def array_of(text: str) -> Array:
    """Raises a ValueError that names what would be right."""
    parts, percent, limit = text.partition("%")
    if percent and not (limit.isascii() and limit.isdigit() and 0 < int(limit[:10]) <= 1_000_000 and len(limit) < 11):
        raise ValueError(f"{limit[:20]!r} is not a number of tasks that may run at once; {_RIGHT}")
    indexes: list[int] = []
    for part in parts.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part[:40]!r} is not a range of indexes; {_RIGHT}")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1 or last > LARGEST_INDEX:
            raise ValueError(f"{part[:40]!r} is an empty range, or ends beyond {LARGEST_INDEX}; {_RIGHT}")
        if len(indexes) + (last - first) // step + 1 > MOST_ITEMS:
            raise ValueError(f"an array has at most {MOST_ITEMS:,} tasks")
        indexes += range(first, last + 1, step)
    if len(set(indexes)) < len(indexes):
        raise ValueError(f"{text[:40]!r} names an index twice; name each once")
    return Array(tuple(indexes), int(limit) if percent else None)
