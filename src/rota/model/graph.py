"""Topological order and cycles of a graph whose tasks are indexes. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def topological_order(parents: Sequence[Sequence[int]]) -> list[int]:
    """Every index after its parents; shorter than `parents` if there is a cycle."""
    dependents: list[list[int]] = [[] for _ in parents]
    missing = [len(set(own)) for own in parents]
    for index, own in enumerate(parents):
        for parent in set(own):
            dependents[parent].append(index)
    free = deque(index for index, count in enumerate(missing) if count == 0)
    order: list[int] = []
    while free:
        index = free.popleft()
        order.append(index)
        for dependent in dependents[index]:
            missing[dependent] -= 1
            if missing[dependent] == 0:
                free.append(dependent)
    return order


_MOST_CYCLES = 20  # finding each costs a walk through the whole graph


def find_cycles(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """Cycles that share no index, those of one index first, at most _MOST_CYCLES."""
    own = [[parent for parent in some if parent != index] for index, some in enumerate(parents)]
    found = [[index] for index, some in enumerate(parents) if index in some][:_MOST_CYCLES]
    while len(found) < _MOST_CYCLES and (cycle := find_cycle(own)):
        found.append(cycle)
        for index in cycle:
            own[index] = []
    return found


def find_cycle(parents: Sequence[Sequence[int]]) -> list[int]:
    """One cycle, in the order in which its tasks wait; empty: there is none."""
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
