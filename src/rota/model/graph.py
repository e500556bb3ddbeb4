"""Dependencies as indexes: a topological order, and the cycle where there is none. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def topological_order(parents: Sequence[Sequence[int]]) -> list[int]:
    """Every index after its parents; shorter than `parents` exactly when there is a cycle."""
    children: list[list[int]] = [[] for _ in parents]
    missing = [len(set(own)) for own in parents]
    for index, own in enumerate(parents):
        for parent in set(own):
            children[parent].append(index)
    free = deque(index for index, count in enumerate(missing) if count == 0)
    order: list[int] = []
    while free:
        index = free.popleft()
        order.append(index)
        for child in children[index]:
            missing[child] -= 1
            if missing[child] == 0:
                free.append(child)
    return order


def find_cycle(parents: Sequence[Sequence[int]]) -> list[int]:
    """One cycle, each index coming after the next one's parent; empty when there is none."""
    ordered = set(topological_order(parents))
    stuck = next((index for index in range(len(parents)) if index not in ordered), None)
    if stuck is None:
        return []
    path: list[int] = []
    seen: dict[int, int] = {}
    index = stuck
    while index not in seen:
        seen[index] = len(path)
        path.append(index)
        index = next(parent for parent in parents[index] if parent not in ordered)
    return list(reversed(path[seen[index] :]))
