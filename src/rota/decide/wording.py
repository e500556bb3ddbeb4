"""The core's numbers as text for people: amounts with their units, spans of time, names of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.decide.state import BANDWIDTH, CPU, DISK, FIXED, GPU, IOPS, MEMORY, PORTS, WHOLE, Dimensions
from rota.model.node import Closed
from rota.model.units import bytes_text, kbit_text

Names = Mapping[int, str]  # node → its name

FIXED_NAMES = ("cpu", "memory", "disk", "ports", "iops", "bandwidth", "gpu")  # by dimension


def name_of(dimensions: Dimensions, dimension: int) -> str:
    """A resource's name as an operator writes it in `--capacity`."""
    if dimension < FIXED:
        return FIXED_NAMES[dimension]
    return next((name for name, number in dimensions.custom.items() if number == dimension), f"resource {dimension}")


def amount(dimensions: Dimensions, dimension: int, value: int) -> str:
    """`8G of memory`, `1.5 cores`, `2 GPUs`, `3 of license`."""
    if dimension == CPU:
        return f"{value / 1000:g} {'core' if value == 1000 else 'cores'}"
    if dimension == GPU:
        return f"{value / WHOLE:g} {'GPU' if value == WHOLE else 'GPUs'}"
    if dimension == PORTS:
        return f"{value} {'port' if value == 1 else 'ports'}"
    if dimension == IOPS:
        return f"{value} disk operations a second"
    if dimension == BANDWIDTH:
        return f"{kbit_text(value)}bit/s of bandwidth"
    if dimension in (MEMORY, DISK):
        return f"{bytes_text(value)}B of {FIXED_NAMES[dimension]}"
    return f"{value} of {name_of(dimensions, dimension)}"


def plain(dimension: int, value: int) -> str:
    """The amount alone, after the resource was named."""
    if dimension in (CPU, GPU):
        return f"{value / 1000:g}"
    if dimension in (MEMORY, DISK):
        return f"{bytes_text(value)}B"
    return f"{kbit_text(value)}bit/s" if dimension == BANDWIDTH else str(value)


def span(microseconds: int) -> str:
    """`0.3 s`, `42 s`, `3 min`, `5 h 7 min`, `12 d`."""
    seconds = max(0, microseconds) / 1_000_000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d"


def node(names: Names, number: int) -> str:
    return names.get(number, f"node {number}")


def percent(ppm: int) -> str:
    return f"{ppm / 10_000:.0f} %"


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


# The slug and the text of each reason. A full disk comes first: an operator must mend it.
_CLOSED = {
    Closed.FULL: ("disk-full", "out of disk space"),
    Closed.DRAINING: ("draining", "draining"),
    Closed.LEAVING: ("leaving", "about to leave"),
}


def closed(reasons: Sequence[Closed]) -> tuple[str, str]:
    """Slug and sentence for a task that only closed nodes could hold. `reasons`: one for each of these nodes."""
    counts = [(reason, reasons.count(reason)) for reason in _CLOSED if reason in reasons]
    slug, text = _CLOSED[counts[0][0]]
    if len(counts) == 1:
        nodes = count(len(reasons), "node that could hold it is", "nodes that could hold it are")
        return slug, f"the {nodes} {text} and {'takes' if len(reasons) == 1 else 'take'} nothing new"
    parts = [f"{number} {'is' if number == 1 else 'are'} {_CLOSED[reason][1]}" for reason, number in counts]
    return slug, f"no node that could hold it takes anything new: {', '.join(parts[:-1])} and {parts[-1]}"
