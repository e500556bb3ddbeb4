"""Draws a graph as an SVG: a box per task, in columns by depth, coloured by state, with curves from parents.

The file has no scripts and no external references. All text is escaped.
"""

from __future__ import annotations

from html import escape

from rota.cli.tables.graph_drawing import depths
from rota.model.answers.graphs import GraphDocument, GraphTask

WIDTH, HEIGHT = 170, 40  # of a box
ACROSS, DOWN, MARGIN, TOP = 70, 16, 20, 50

_COLOURS = {
    "done": "#c8e6c9",
    "failed": "#ffcdd2",
    "running": "#b3e5fc",
    "ready": "#fff9c4",
    "blocked": "#eeeeee",
    "delayed": "#fff9c4",
    "paused": "#e1bee7",
    "cancelled": "#cfd8dc",
    "skipped": "#cfd8dc",
    "expired": "#cfd8dc",
}
_DASHES = {"after": "", "after_end": "6 3", "after_failed": "2 3"}
_STYLE = (
    "text{font:12px sans-serif}.state{font-size:10px;fill:#555}.title{font-size:16px;font-weight:bold}"
    "path{fill:none;stroke:#888;stroke-width:1.2}rect{stroke:#666}"
)


def picture(graph: GraphDocument) -> str:
    depth = depths(graph.tasks)
    columns: dict[int, list[GraphTask]] = {}
    for task in graph.tasks:
        columns.setdefault(depth[task.id], []).append(task)
    places = {
        task.id: (MARGIN + column * (WIDTH + ACROSS), TOP + row * (HEIGHT + DOWN))
        for column, tasks in columns.items()
        for row, task in enumerate(tasks)
    }
    width = 2 * MARGIN + max(1, len(columns)) * (WIDTH + ACROSS) - ACROSS
    height = TOP + MARGIN + max((len(tasks) for tasks in columns.values()), default=1) * (HEIGHT + DOWN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="white" style="stroke:none"/>',
        f'<text class="title" x="{MARGIN}" y="28">{_text(graph.name)} ({graph.id}): {_text(graph.status)}</text>',
    ]
    parts += [
        _curve(places[parent], places[task.id], dash)
        for task in graph.tasks
        for parent, dash in _edges(task)
        if parent in places
    ]
    parts += [_box(task, *places[task.id]) for task in graph.tasks]
    return "\n".join([*parts, "</svg>", ""])


def _edges(task: GraphTask) -> list[tuple[int, str]]:
    edges = [(parent, _DASHES[field]) for field in _DASHES for parent in getattr(task, field)]
    return edges if task.parent is None else [*edges, (task.parent, "1 4")]


def _curve(start: tuple[int, int], end: tuple[int, int], dash: str) -> str:
    x1, y1, x2, y2 = start[0] + WIDTH, start[1] + HEIGHT // 2, end[0], end[1] + HEIGHT // 2
    bend = (x2 - x1) // 2
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"{dashes}/>'


def _box(task: GraphTask, x: int, y: int) -> str:
    name = task.name if len(task.name) <= 22 else task.name[:21] + "…"
    return (
        f"<g><title>{_text(task.name)}: {task.id}</title>"
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{_COLOURS.get(task.state, "#fff")}"/>'
        f'<text x="{x + 10}" y="{y + 17}">{_text(name)}</text>'
        f'<text class="state" x="{x + 10}" y="{y + 32}">{_text(task.state)} · {task.id}</text></g>'
    )


def _text(text: str) -> str:
    """Escaped, without the characters that XML forbids."""
    return escape("".join(one if one.isprintable() else "\ufffd" for one in text))
