"""Resolves the references between tasks of one batch, and reports cycles. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rota.model.errors import Fault
from rota.model.graph import find_cycles
from rota.model.request.task_request import TaskRequest
from rota.model.task import Upstream

MOST_EDGES = 100_000
MOST_PARENTS = 1_000

Rules = dict[int, Upstream]


def named_parents(task: TaskRequest) -> Iterator[tuple[str, Upstream | None, list[int | str]]]:
    """The fields that name parents, with the rule of each; None: the task's own `upstream`."""
    yield "after", None, task.after
    yield "after_end", Upstream.RUN, task.after_end
    yield "after_failed", Upstream.FAILED, task.after_failed


def resolve_references(
    tasks: Sequence[TaskRequest], pointers: Sequence[str], faults: list[Fault]
) -> tuple[list[list[int]], list[Rules]]:
    """For each task, the indexes of its parents in the batch, and the rules for parents that are not in `after`.

    Ids of tasks outside the batch are checked by the store.
    """
    if not any(task.after or task.after_end or task.after_failed or task.ref is not None for task in tasks):
        return [[]] * len(tasks), [{}] * len(tasks)  # shared, and never changed
    index_of: dict[str, int] = {}
    for index, task in enumerate(tasks):
        if task.ref is None:
            continue
        if task.ref in index_of:
            faults.append(Fault(f"{pointers[index]}/ref", "dag-cycle", f"the ref {task.ref!r} is used twice"))
        index_of[task.ref] = index
    parents: list[list[int]] = []
    rules: list[Rules] = []
    edges = 0
    for index, task in enumerate(tasks):
        own: Rules = {}
        parents.append(_siblings(task, pointers[index], index_of, own, faults))
        rules.append(own)
        edges += len(task.after) + len(task.after_end) + len(task.after_failed)
    if edges > MOST_EDGES:
        faults.append(
            Fault("/tasks", "dag-too-large", f"a batch has at most {MOST_EDGES:,} dependencies, not {edges:,}")
        )
    for cycle in find_cycles(parents):
        names = " → ".join(str(tasks[index].ref) for index in [*cycle, cycle[0]])
        faults.append(Fault(f"{pointers[cycle[0]]}/after", "dag-cycle", f"these wait for each other: {names}"))
    return parents, rules


def _siblings(
    task: TaskRequest, pointer: str, index_of: dict[str, int], rules: Rules, faults: list[Fault]
) -> list[int]:
    found: list[int] = []
    field_of: dict[int | str, str] = {}
    for field, rule, names in named_parents(task):
        if len(names) > MOST_PARENTS:
            detail = f"a task comes after at most {MOST_PARENTS:,} tasks, not {len(names):,}"
            faults.append(Fault(f"{pointer}/{field}", "dag-too-large", detail))
        for position, name in enumerate(names):
            if field_of.setdefault(name, field) != field:
                detail = f"{str(name)[:80]!r} is in {field_of[name]} too; name a task in one of them"
                faults.append(Fault(f"{pointer}/{field}/{position}", "unknown-dependency", detail))
            if not isinstance(name, str):
                continue
            parent = index_of.get(name)
            if parent is None:
                detail = f"no task of this batch has the ref {name[:80]!r}"
                faults.append(Fault(f"{pointer}/{field}/{position}", "unknown-dependency", detail))
                continue
            found.append(parent)
            if rule is not None:
                rules[parent] = rule
    return sorted(set(found))
