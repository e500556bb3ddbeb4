"""Draws a graph as text: a line per task, indented by its depth, with its state and parents.

Tasks of one depth that look alike (same parents, same state) are drawn as one line when there are many, so that a
fan-out of thousands stays readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rota.cli.tables.graph_tables import progress
from rota.cli.tables.render import ago, span, table
from rota.model.answers.graphs import GraphDocument, GraphTask

MOST_ALIKE = 8  # more tasks that look alike are counted, not drawn
MOST_NAMED = 4

_MARKS = {
    "done": "✔",
    "failed": "✘",
    "running": "▶",
    "ready": "○",
    "blocked": "·",
    "delayed": "◷",
    "paused": "‖",
    "cancelled": "⊘",
    "skipped": "↷",
    "expired": "⌛",
}


def draw(graph: GraphDocument) -> str:
    now = datetime.now(UTC)
    head = f"{graph.name} ({graph.id})  {graph.status}  {progress(graph)}  {ago(graph.created_at, now)}"
    columns = ("TASK", "STATE", "ID>", "TOOK>", "AFTER~", "WHY~?")
    if graph.scheduled_for is not None:
        head += f"\nof schedule {graph.schedule or '(removed)'}, for {graph.scheduled_for:%Y-%m-%dT%H:%M:%SZ}"
    drawn = [head, "", table(columns, _rows(graph, now), empty="no tasks")]
    if graph.critical_path:
        drawn += [
            "",
            "longest path: "
            + " → ".join(f"{step.name} {span(step.run_seconds)}" for step in graph.critical_path[-12:]),
        ]
    return "\n".join(drawn)


def depths(tasks: Sequence[GraphTask]) -> dict[int, int]:
    """The number of tasks before each on its longest path. `tasks` is in topological order."""
    found: dict[int, int] = {}
    for task in tasks:
        before = [found[parent] for parent in task.parents if parent in found]
        if task.parent in found:
            before.append(found[task.parent])
        found[task.id] = 1 + max(before, default=-1)
    return found


def _rows(graph: GraphDocument, now: datetime) -> list[tuple[str, ...]]:
    depth = depths(graph.tasks)
    names = {task.id: task.name for task in graph.tasks}
    alike: dict[tuple[object, ...], list[GraphTask]] = {}
    for task in sorted(graph.tasks, key=lambda task: depth[task.id]):
        look = (depth[task.id], task.state, *sorted(task.parents), task.parent)
        alike.setdefault(look, []).append(task)
    rows: list[tuple[str, ...]] = []
    for same in alike.values():
        indent = "  " * min(depth[same[0].id], 20)
        shown = same if len(same) <= MOST_ALIKE else same[:3]
        for task in shown:
            mark = _MARKS.get(task.state, "?")
            rows.append(
                (
                    f"{indent}{mark} {task.name}",
                    task.state,
                    str(task.id),
                    _took(task, now),
                    _parents(task, names),
                    task.reason or "",
                )
            )
        if len(shown) < len(same):
            rows.append((f"{indent}… and {len(same) - len(shown)} more", same[0].state, "", "", "", ""))
    return rows


def _took(task: GraphTask, now: datetime) -> str:
    if task.run_seconds is not None and task.started_at is not None:
        return span(task.run_seconds)
    if task.state == "running" and task.started_at is not None:
        return span(max(0.0, (now - task.started_at).total_seconds()))
    return ""


def _parents(task: GraphTask, names: dict[int, str]) -> str:
    words = [f"by {names.get(task.parent, task.parent)}"] if task.parent is not None else []
    for verb, parents in (("", task.after), ("end of ", task.after_end), ("failure of ", task.after_failed)):
        named = [str(names.get(parent, parent)) for parent in parents[:MOST_NAMED]]
        more = f" and {len(parents) - MOST_NAMED} more" if len(parents) > MOST_NAMED else ""
        if named:
            words.append(verb + ", ".join(named) + more)
    return "; ".join(words)
