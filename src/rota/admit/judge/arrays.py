"""Expands arrays: one request becomes one request per index, alone or as a task of a graph. Pure.

The requests differ only in their index and, for a function, in the item that is its argument, so a thousand cost little
more to check than one. A task that comes after an array comes after all of its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from rota.model.errors import Fault, FaultList, invalid
from rota.model.request.array import Array, array_of
from rota.model.request.task_request import ABSENT, MAX_BATCH, TaskRequest
from rota.model.units import amount_text

_AFTER = ("after", "after_end", "after_failed")


@dataclass(slots=True)
class Expanded:
    """The tasks of a request, each with its JSON pointer and, in an array, its index."""

    tasks: list[TaskRequest] = field(default_factory=list)
    pointers: list[str] = field(default_factory=list)
    items: list[int | None] = field(default_factory=list)
    limits: dict[int, int] = field(default_factory=dict)  # index of an array's first task → at most so many at once
    faults: list[Fault] = field(default_factory=list)

    def add(self, task: TaskRequest, pointer: str, item: int | None = None) -> None:
        self.tasks.append(task)
        self.pointers.append(pointer)
        self.items.append(item)


def expanded(task: TaskRequest) -> Expanded:
    """Expands a request that is an array."""
    found = Expanded()
    _expand(task, "", found)
    if found.faults:
        raise invalid(found.faults)
    return found


def expanded_nodes(tasks: Sequence[TaskRequest], faults: Sequence[Fault]) -> Expanded:
    """Expands the arrays of a graph into tasks `name[index]`. `faults`: those found before."""
    found = Expanded(faults=list(faults))
    members: dict[str, list[int | str]] = {}  # name of an array → names of its tasks
    for number, task in enumerate(tasks):
        pointer = f"/tasks/{number}"
        if task.array is None and not task.items:
            found.add(task, pointer)
            continue
        first = len(found.tasks)
        _expand(task, pointer, found)
        for position in range(first, len(found.tasks)):
            name = f"{task.ref}[{found.items[position]}]"
            members.setdefault(str(task.ref), []).append(name)
            found.tasks[position] = msgspec.structs.replace(found.tasks[position], ref=name)
    if members:
        found.tasks = [_after_members(task, members) for task in found.tasks]
    if len(found.tasks) > MAX_BATCH:
        detail = f"a graph has at most {MAX_BATCH:,} tasks, not {len(found.tasks):,}, those of its arrays included"
        found.faults.append(Fault("/tasks", "out-of-range", detail))
    return found


def _expand(task: TaskRequest, pointer: str, found: Expanded) -> None:
    plain = msgspec.structs.replace(task, array=None, items=[])
    try:
        array = array_of(task.array) if task.array is not None else Array(tuple(range(len(task.items))))
    except ValueError as error:
        found.faults.append(Fault(f"{pointer}/array", "out-of-range", str(error)))
        found.add(plain, pointer)  # so that its other faults are found, and references to it are not faults
        return
    _check(task, array, FaultList(pointer, found.faults))
    if array.at_once is not None:
        found.limits[len(found.tasks)] = array.at_once
    for position, index in enumerate(array.indexes):
        one = plain
        if position < len(task.items):
            one = msgspec.structs.replace(plain, args=msgspec.Raw(b"[" + bytes(task.items[position]) + b"]"))
        found.add(one, pointer, index)


def _check(task: TaskRequest, array: Array, faults: FaultList) -> None:
    indexes, items = len(array.indexes), len(task.items)
    if items and items != indexes:
        detail = (
            f"the array has {amount_text(indexes, 'index', 'indexes')} but "
            f"{amount_text(items, 'item')}; give as many items as indexes"
        )
        faults.add("items", "out-of-range", detail)
    if items > MAX_BATCH:
        faults.add("items", "out-of-range", f"an array has at most {MAX_BATCH:,} items, not {items:,}")
    if items and (task.function is None or bytes(task.args) not in ABSENT):
        detail = "items go with a function without args: each item is its one argument"
        faults.add("items", "invalid-command", detail)
    if array.at_once is not None and task.concurrency_key is not None:
        detail = "% and concurrency_key both limit how many tasks run at once; give one of them"
        faults.add("array", "out-of-range", detail)


def _after_members(task: TaskRequest, members: dict[str, list[int | str]]) -> TaskRequest:
    changes: dict[str, list[int | str]] = {}
    for name in _AFTER:
        named: list[int | str] = getattr(task, name)
        if any(isinstance(one, str) and one in members for one in named):
            changes[name] = [each for one in named for each in members.get(str(one), [one])]
    return msgspec.structs.replace(task, **changes) if changes else task
