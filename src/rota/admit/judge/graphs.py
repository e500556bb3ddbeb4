"""Judges the names in a graph, and makes the graph's row. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import msgspec

from rota.admit.judge.arrays import Expanded, expanded_nodes
from rota.model.errors import Fault, invalid
from rota.model.graph import topological_order
from rota.model.request.task_request import MAX_BATCH, GraphRequest, TaskRequest
from rota.model.tenant import Caller
from rota.store.graphs import GraphRow
from rota.store.task_rows import Draft

LONGEST_NAME = 200
_BAD_NAME = re.compile(r"[\x00-\x1f\x7f]")
_TASK_NAME = re.compile(r"(?=.*\D)[^\x00-\x1f\x7f]{1,200}")


def tasks_of(graph: GraphRequest) -> Expanded:
    """The graph's tasks, each with its name inside the graph as `ref`, and the faults of these names."""
    faults: list[Fault] = []
    if not graph.name.strip() or len(graph.name) > LONGEST_NAME or _BAD_NAME.search(graph.name):
        faults.append(Fault("/name", "invalid-name", f"a graph's name has 1 to {LONGEST_NAME} printable characters"))
    if not 1 <= len(graph.tasks) <= MAX_BATCH:
        faults.append(Fault("/tasks", "out-of-range", f"a graph has 1 to {MAX_BATCH} tasks, not {len(graph.tasks)}"))
        raise invalid(faults)
    tasks = []
    for index, task in enumerate(graph.tasks):
        ref = task.ref if task.ref is not None else task.name
        if ref is None:
            faults.append(Fault(f"/tasks/{index}/ref", "missing-field", "a task of a graph needs a ref or a name"))
        elif not _TASK_NAME.fullmatch(ref):
            detail = f"{ref[:80]!r} is not a name inside a graph: 1 to 200 printable characters, not only digits"
            faults.append(Fault(f"/tasks/{index}/ref", "invalid-name", detail))
        if task.idempotency_key is not None:
            detail = "a graph has one idempotency key; send it as the header Idempotency-Key"
            faults.append(Fault(f"/tasks/{index}/idempotency_key", "unknown-field", detail))
        named = task if task.name is not None else msgspec.structs.replace(task, name=ref)
        tasks.append(msgspec.structs.replace(named, ref=ref))
    return expanded_nodes(tasks, faults)


def graph_row(
    caller: Caller,
    name: str,
    number: int,
    requests: Sequence[TaskRequest],
    drafts: Sequence[Draft],
    arrays: Expanded | None,
) -> GraphRow:
    """The row of a graph, its tasks in topological order. An array alone is a graph of unnamed tasks."""
    order = topological_order([draft.siblings for draft in drafts])
    items = arrays.items if arrays is not None else [None] * len(drafts)
    is_array = all(item is not None and request.ref is None for item, request in zip(items, requests, strict=True))
    members = tuple(
        (
            drafts[index].id,
            requests[index].ref or f"{name}[{items[index]}]",
            position,
            items[index] if is_array else None,
        )
        for position, index in enumerate(order)
    )
    return GraphRow(id=number, tenant=caller.tenant_id, user=caller.user, name=name, members=members, is_array=is_array)


def graph_of_task(caller: Caller, draft: Draft, number: int) -> GraphRow:
    """The row of the graph that a task begins because it may submit others."""
    name = draft.template.name
    members = ((draft.id, name, 0, None),)
    return GraphRow(id=number, tenant=caller.tenant_id, user=caller.user, name=name, members=members, from_task=True)


def limit_arrays(drafts: Sequence[Draft], arrays: Expanded, graph: int) -> None:
    """Limits how many tasks of an array run at once, by a concurrency key of its own."""
    pointer, template, limited = None, None, None
    for position, draft in enumerate(drafts):
        if position in arrays.limits:
            pointer = draft.pointer
            key, limit = f"array:{graph}:{position}", arrays.limits[position]
            template = limited = None
        if pointer != draft.pointer:
            pointer = None
            continue
        if limited is None or draft.template is not template:
            template = draft.template
            limited = dataclasses.replace(template, concurrency_key=key, concurrency_limit=limit)
        draft.template = limited
