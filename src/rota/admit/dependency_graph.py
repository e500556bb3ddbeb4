"""Dependencies inside one batch: names resolved, cycles named, a topological order. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rota.model.errors import Fault
from rota.model.request import TaskRequest

MOST_EDGES = 100_000
MOST_PARENTS = 1_000


def resolve_references(tasks: Sequence[TaskRequest], pointers: Sequence[str], faults: list[Fault]) -> list[list[int]]:
    """For each task, the indexes in the batch that it comes after. Ids of other tasks are left to the store."""
    if not any(task.after or task.ref is not None for task in tasks):
        nothing: list[int] = []
        return [nothing] * len(tasks)
    index_of: dict[str, int] = {}
    for index, task in enumerate(tasks):
        if task.ref is None:
            continue
        if task.ref in index_of:
            faults.append(Fault(f"{pointers[index]}/ref", "dag-cycle", f"the ref {task.ref!r} is used twice"))
        index_of[task.ref] = index
    parents: list[list[int]] = []
    edges = 0
    for index, task in enumerate(tasks):
        found: list[int] = []
        if len(task.after) > MOST_PARENTS:
            faults.append(
                Fault(f"{pointers[index]}/after", "dag-too-large", f"at most {MOST_PARENTS} tasks can be named")
            )
        for position, name in enumerate(task.after):
            if isinstance(name, str):
                parent = index_of.get(name)
                if parent is None:
                    faults.append(
                        Fault(f"{pointers[index]}/after/{position}", "unknown-dependency",
                              f"no task of this batch has the ref {name[:80]!r}")
                    )  # fmt: skip
                else:
                    found.append(parent)
        edges += len(task.after)
        parents.append(sorted(set(found)))
    if edges > MOST_EDGES:
        faults.append(Fault("/tasks", "dag-too-large", f"the batch has {edges} dependencies; {MOST_EDGES} at most"))
    if not faults:
        cycle = find_cycle(parents)
        if cycle:
            names = " → ".join(str(tasks[index].ref) for index in [*cycle, cycle[0]])
            faults.append(Fault(f"{pointers[cycle[0]]}/after", "dag-cycle", f"these wait for each other: {names}"))
    return parents


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
