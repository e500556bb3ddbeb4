"""Dependencies inside one batch: names resolved, cycles named. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.errors import Fault
from rota.model.graph import find_cycle
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
