"""Arrays on their way in: one request becomes as many as it has indexes, alone or as a node of a graph. Pure.

They differ in their index and, for a function, in the item that is its argument; all else is shared, so that a thousand
cost little more than one to check. In a graph, who comes after an array comes after all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from rota.model.errors import Fault, invalid
from rota.model.request.array import Array, array_of
from rota.model.request.task_request import ABSENT, MAX_BATCH, TaskRequest

_AFTER = ("after", "after_end", "after_failed")


@dataclass(slots=True)
class Expanded:
    """The tasks that a request means: where each was asked for, and its index if it is of an array."""

    tasks: list[TaskRequest] = field(default_factory=list)
    pointers: list[str] = field(default_factory=list)
    items: list[int | None] = field(default_factory=list)
    limits: dict[int, int] = field(default_factory=dict)  # place of an array's first task → how many of it at once
    faults: list[Fault] = field(default_factory=list)

    def add(self, task: TaskRequest, pointer: str, item: int | None = None) -> None:
        self.tasks.append(task)
        self.pointers.append(pointer)
        self.items.append(item)


def expanded(task: TaskRequest) -> Expanded:
    """A task that is an array, by itself."""
    found = Expanded()
    _expand(task, "", found)
    if found.faults:
        raise invalid(found.faults)
    return found


def expanded_nodes(tasks: Sequence[TaskRequest], faults: Sequence[Fault]) -> Expanded:
    """The tasks of a graph, with arrays as so many nodes `name[index]`. `faults`: found before."""
    found = Expanded(faults=list(faults))
    members: dict[str, list[int | str]] = {}  # name of an array → names of its tasks
    for number, task in enumerate(tasks):
        pointer = f"/tasks/{number}"
        if task.array is None and not task.items:
            found.add(task, pointer)
            continue
        first = len(found.tasks)
        _expand(task, pointer, found)
        for place in range(first, len(found.tasks)):
            name = f"{task.ref}[{found.items[place]}]"
            members.setdefault(str(task.ref), []).append(name)
            found.tasks[place] = msgspec.structs.replace(found.tasks[place], ref=name)
    if members:
        found.tasks = [_after_members(task, members) for task in found.tasks]
    if len(found.tasks) > MAX_BATCH:
        found.faults.append(
            Fault(
                "/tasks", "out-of-range", f"with its arrays the graph has {len(found.tasks)} tasks; {MAX_BATCH} at most"
            )
        )
    return found


def _expand(task: TaskRequest, pointer: str, found: Expanded) -> None:
    plain = msgspec.structs.replace(task, array=None, items=[])
    try:
        array = array_of(task.array) if task.array is not None else Array(tuple(range(len(task.items))))
    except ValueError as error:
        found.faults.append(Fault(f"{pointer}/array", "out-of-range", str(error)))
        found.add(plain, pointer)  # so that its own faults are found too, and who names it is not told of nobody
        return
    _check(task, array, pointer, found.faults)
    if array.at_once is not None:
        found.limits[len(found.tasks)] = array.at_once
    for place, index in enumerate(array.indexes):
        one = plain
        if place < len(task.items):
            one = msgspec.structs.replace(plain, args=msgspec.Raw(b"[" + bytes(task.items[place]) + b"]"))
        found.add(one, pointer, index)


def _check(task: TaskRequest, array: Array, pointer: str, faults: list[Fault]) -> None:
    if task.items and len(task.items) != len(array.indexes):
        detail = f"there are {len(task.items)} items for {len(array.indexes)} indexes"
        faults.append(Fault(f"{pointer}/items", "out-of-range", detail))
    if len(task.items) > MAX_BATCH:
        faults.append(Fault(f"{pointer}/items", "out-of-range", f"at most {MAX_BATCH} items"))
    if task.items and (task.function is None or bytes(task.args) not in ABSENT):
        faults.append(Fault(f"{pointer}/items", "invalid-command", "an item is the one argument of a function"))
    if array.at_once is not None and task.concurrency_key is not None:
        detail = "% and a concurrency key both say how many run at once; give one of them"
        faults.append(Fault(f"{pointer}/array", "out-of-range", detail))


def _after_members(task: TaskRequest, members: dict[str, list[int | str]]) -> TaskRequest:
    changes: dict[str, list[int | str]] = {}
    for name in _AFTER:
        named: list[int | str] = getattr(task, name)
        if any(isinstance(one, str) and one in members for one in named):
            changes[name] = [each for one in named for each in members.get(str(one), [one])]
    return msgspec.structs.replace(task, **changes) if changes else task
