"""Tables of graphs."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.cli.tables.render import NOTHING, ago, blocks, table
from rota.model.answers.graphs import GraphPage, GraphSummary

BAR_WIDTH = 12

_COLUMNS = ("ID>", "NAME~", "STATUS", "PROGRESS", "FAILED", "CREATED?", "SCHEDULE?", "USER?")


def page(found: GraphPage) -> str:
    now = datetime.now(UTC)
    rows = [
        (
            str(graph.id),
            graph.name,
            graph.status,
            progress(graph),
            str(graph.counts.get("failed") or NOTHING),
            ago(graph.created_at, now),
            graph.schedule or NOTHING,
            graph.user,
        )
        for graph in found.graphs
    ]
    drawn = table(_COLUMNS, rows, empty="no graphs" if found.next is None else "none so far")
    return drawn if found.next is None else f"{drawn}\nmore: the same with --cursor {found.next}"


def progress(graph: GraphSummary) -> str:
    """A bar of the ended tasks, and their number out of all."""
    ended = sum(graph.counts.get(status, 0) for status in ("done", "failed", "cancelled"))
    return f"{blocks(BAR_WIDTH * ended // max(1, graph.size), BAR_WIDTH)} {ended}/{graph.size}"


def ids(by_name: dict[str, int]) -> str:
    widest = max(map(len, by_name), default=0)
    return "\n".join(f"{name:<{widest}}  {number}" for name, number in by_name.items())
