"""Draws one run: the pool's use and its queue over time, and a Gantt chart of the machines.

The drawing is laid out once as plain shapes (`Scene`) and written as an HTML page with inline SVG, or as PNG, which
needs Pillow (the extra `plot`).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rota.simulate.traces.drive import Run
from rota.simulate.traces.figures import curve, queue_curve
from rota.simulate.traces.workload import BadTrace

_WIDTH, _LEFT, _RIGHT = 1200, 70, 20
_CHART, _GAP, _TITLE = 150, 60, 40
_POINTS = 400
_MOST_MACHINES = 60  # rows of the Gantt chart; a larger pool is sampled evenly
_MOST_BARS = 20_000
_INK, _FAINT, _USE, _QUEUE = "#333333", "#dddddd", "#3b76af", "#c8553d"
_BARS = ("#3b76af", "#ef8636", "#519e3e", "#c53a32", "#8d69b8", "#84584e", "#d57dbe", "#7f7f7f", "#bcbd45", "#55aabb")


class Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    colour: str
    note: str = ""  # the tooltip


class Line(NamedTuple):
    points: tuple[tuple[float, float], ...]
    colour: str


class Text(NamedTuple):
    x: float
    y: float
    text: str
    end: bool = False  # the text ends at x instead of beginning there


@dataclass(slots=True)
class Scene:
    width: int
    height: int
    span: tuple[float, float]  # seconds at both ends of the time axis
    bars: list[Bar] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def write(path: Path, title: str, run: Run) -> None:
    """Writes the drawing of one run as .html or .png."""
    scene = draw(title, run)
    try:
        if path.suffix == ".png":
            _write_png(path, scene)
        else:
            path.write_text(_page(title, scene), encoding="utf-8")
    except OSError as error:
        raise BadTrace(f"{path}: cannot be written: {error.strerror or error}") from None


def draw(title: str, run: Run) -> Scene:
    """Three charts on one time axis."""
    machines = _shown_machines(run)
    row = max(4.0, min(24.0, 480 / len(machines)))
    gantt = max(_CHART, int(row * len(machines)))
    start = run.levels[0].at_us / 1e6 if run.levels else 0.0
    end = max(run.levels[-1].at_us / 1e6 if run.levels else 1.0, start + 1e-6)
    scene = Scene(_WIDTH, _TITLE + 2 * (_CHART + _GAP) + gantt + _GAP, (start, end))
    scene.texts.append(Text(_LEFT, 24, title))
    _chart(scene, _TITLE, "share of the pool in use", curve(run, _POINTS), 1.0, _USE)
    queue = queue_curve(run, _POINTS)
    most = float(max((count for _, count in queue), default=0) or 1)
    _chart(scene, _TITLE + _CHART + _GAP, "jobs waiting", queue, most, _QUEUE)
    _gantt(scene, _TITLE + 2 * (_CHART + _GAP), row, machines, run)
    return scene


def _chart(scene: Scene, top: int, name: str, points: Sequence[tuple[float, float]], most: float, colour: str) -> None:
    bottom = top + _CHART
    scene.texts.append(Text(_LEFT, top - 4, name))
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * _CHART
        scene.lines.append(Line(((_LEFT, y), (_WIDTH - _RIGHT, y)), _FAINT))
        scene.texts.append(Text(_LEFT - 6, y + 4, f"{share * most:g}", end=True))
    steps: list[tuple[float, float]] = []
    for index, (at, value) in enumerate(points):
        y = bottom - value / most * _CHART
        until = points[index + 1][0] if index + 1 < len(points) else scene.span[1]
        steps += ((_x(at, scene), y), (_x(until, scene), y))
    if steps:
        scene.lines.append(Line(tuple(steps), colour))
    _time_axis(scene, bottom)


def _gantt(scene: Scene, top: int, row: float, machines: dict[int, int], run: Run) -> None:
    visible = [attempt for attempt in run.spans if attempt.machine in machines]
    every = -(-len(visible) // _MOST_BARS) or 1
    jobs = {job.id: job for job in run.workload.jobs}
    several = len({job.tenant for job in run.workload.jobs}) > 1  # then colours show tenants, else demands
    few = len(run.workload.machines) == 1
    lanes = _lanes(run) if few else {}
    count = (max(lanes.values(), default=0) + 1) if few else len(machines)
    height = max(_CHART, row * len(machines)) / count
    left = len(run.workload.machines) - len(machines)
    name = "jobs on the pool" if few else "machines" + (f" ({left:,} more not shown)" if left else "")
    scene.texts.append(Text(_LEFT, top - 4, name))
    for attempt in visible[::every]:
        index = lanes[attempt.start_us, attempt.job] if few else machines[attempt.machine]
        x = _x(attempt.start_us / 1e6, scene)
        width = max(0.5, _x(attempt.end_us / 1e6, scene) - x)
        job = jobs[attempt.job]
        note = f"job {job.id}, tenant {job.tenant}: {(attempt.end_us - attempt.start_us) / 1e6:g} s"
        colour = _BARS[(job.tenant if several else job.shape) % len(_BARS)]
        scene.bars.append(Bar(x, top + index * height, width, max(0.5, height * 0.9), colour, note))
    _time_axis(scene, int(top + count * height))


def _lanes(run: Run) -> dict[tuple[int, int], int]:
    """On a single machine, overlapping jobs are drawn in different rows."""
    free_at: list[int] = []
    lanes: dict[tuple[int, int], int] = {}
    for span in sorted(run.spans, key=lambda span: (span.start_us, span.job)):
        lane = next((index for index, at in enumerate(free_at) if at <= span.start_us), len(free_at))
        free_at[lane : lane + 1] = [span.end_us]
        lanes[span.start_us, span.job] = lane
    return lanes


def _shown_machines(run: Run) -> dict[int, int]:
    numbers = [machine.id for machine in run.workload.machines]
    every = -(-len(numbers) // _MOST_MACHINES)
    return {number: index for index, number in enumerate(numbers[::every])}


def _time_axis(scene: Scene, bottom: float) -> None:
    start, end = scene.span
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = start + share * (end - start)
        scene.texts.append(Text(_x(at, scene), bottom + 16, _time(at - start), end=share > 0))


def _x(at: float, scene: Scene) -> float:
    start, end = scene.span
    return _LEFT + (at - start) / (end - start) * (_WIDTH - _LEFT - _RIGHT)


def _time(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:g} s" if seconds < 10 else f"{seconds:.0f} s"


def _page(title: str, scene: Scene) -> str:
    parts = [
        f'<rect x="{bar.x:.1f}" y="{bar.y:.1f}" width="{bar.width:.1f}" height="{bar.height:.1f}"'
        f' fill="{bar.colour}"><title>{html.escape(bar.note)}</title></rect>'
        for bar in scene.bars
    ]
    for line in scene.lines:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{line.colour}"/>')
    for text in scene.texts:
        anchor = "end" if text.end else "start"
        parts.append(f'<text x="{text.x:.1f}" y="{text.y:.1f}" text-anchor="{anchor}">{html.escape(text.text)}</text>')
    drawing = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title></head>\n'
        f'<body><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {scene.width} {scene.height}" role="img"'
        f' font-family="sans-serif" font-size="12" fill="{_INK}">\n{drawing}\n</svg></body></html>\n'
    )


def _write_png(path: Path, scene: Scene) -> None:
    try:
        from PIL import Image, ImageDraw  # noqa: PLC0415 - an optional package
    except ImportError:
        raise BadTrace("a .png needs Pillow: install Rota with its extra [plot], or ask for .html") from None
    image = Image.new("RGB", (scene.width, scene.height), "white")
    pen = ImageDraw.Draw(image)
    for bar in scene.bars:
        pen.rectangle((bar.x, bar.y, bar.x + max(bar.width, 1), bar.y + max(bar.height, 1)), fill=bar.colour)
    for line in scene.lines:
        pen.line(line.points, fill=line.colour, width=1)
    for text in scene.texts:
        pen.text((text.x, text.y), text.text, fill=_INK, anchor="rs" if text.end else "ls")
    image.save(path, format="PNG")
