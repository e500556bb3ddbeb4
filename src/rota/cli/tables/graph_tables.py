"""Tables of graphs."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.cli.tables.render import NOTHING, Column, ago, table
from rota.model.answers.graphs import GraphAgain, GraphPage, GraphSummary

BAR_WIDTH = 12

_COLUMNS = (
    Column("ID", align="right"),
    Column("NAME", flexible=True),
    Column("STATUS"),
    Column("PROGRESS"),
    Column("FAILED"),
    Column("CREATED", optional=True),
    Column("SCHEDULE", optional=True),
    Column("USER", optional=True),
)


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
    full = BAR_WIDTH * ended // graph.size if graph.size else 0
    return f"{'█' * full}{'░' * (BAR_WIDTH - full)} {ended}/{graph.size}"


def again(made: GraphAgain) -> str:
    widest = max(map(len, made.tasks), default=0)
    return "\n".join(f"{name:<{widest}}  {task_id}" for name, task_id in made.tasks.items())
