"""`rota graph`: lists, draws, cancels and repeats graphs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, Reason, connect, show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import graph_drawing, graph_svg, graph_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import graph_calls
from rota.client.calls.graph_calls import GraphFilter

GraphId = Annotated[int, typer.Argument(metavar="ID", min=1, help="Id of the graph.")]

_WATCH_SECONDS = 1.0
_CLEAR = "\x1b[H\x1b[J"


def add_to(app: typer.Typer) -> None:
    group = add_group(app, "graph", "Manage graphs: tasks with dependencies, handled as one.", no_args_is_help=True)
    add_command(
        group,
        "list",
        list_graphs,
        "rota graph list",
        "rota graph list --name etl",
        "rota graph list --schedule nightly",
    )
    add_command(
        group, "show", show_graph, "rota graph show 7", "rota graph show 7 --watch", "rota graph show 7 --svg etl.svg"
    )
    add_command(group, "cancel", cancel, "rota graph cancel 7")
    add_command(group, "retry", retry, "rota graph retry 7")
    add_command(group, "rerun", rerun, "rota graph rerun 7")


def list_graphs(
    name: Annotated[str | None, typer.Option(help="Graphs with this name.")] = None,
    schedule: Annotated[str | None, typer.Option(metavar="NAME", help="Runs of this schedule.")] = None,
    user: Annotated[str | None, typer.Option(help="Graphs that this user submitted.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Submitted since, e.g. 10m or 2026-03-01T08:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Submitted before this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Length of a page.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """List your graphs and arrays, newest first."""
    wanted: GraphFilter = {
        "name": name,
        "schedule": schedule,
        "user": user,
        "since": checks.since("--since", since),
        "until": checks.since("--until", until),
    }
    show(graph_calls.graphs(wanted, limit=limit, cursor=cursor), output_format, graph_tables.page)


def show_graph(
    graph_id: GraphId,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until the graph has ended.")] = False,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an SVG picture instead.")] = None,
    before: Annotated[
        str | None, typer.Option(metavar="TASK", help="Only the tasks that this task depends on.")
    ] = None,
    behind: Annotated[str | None, typer.Option(metavar="TASK", help="Only the tasks that depend on this task.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Draw a graph with the states of its tasks."""
    call = graph_calls.graph(graph_id, ancestors_of=before, descendants_of=behind)
    if watch and output_format is Format.TABLE and svg is None:
        _watch(graph_id)
    elif svg is None:
        show(call, output_format, graph_drawing.draw)
    else:
        with connect() as client:
            found = client.perform(call)
        try:
            svg.write_text(graph_svg.picture(found))
        except OSError as error:
            raise checks.wrong("--svg", f"{svg} can't be written: {error.strerror}") from None
        output.note(f"{svg} is written")


def _watch(graph_id: int) -> None:
    """Redraws in place on a terminal; elsewhere prints the drawing whenever it has changed."""
    last = None
    with connect(FOLLOW_RETRY_SECONDS) as client:
        while True:
            found = client.perform(graph_calls.graph(graph_id))
            drawn = graph_drawing.draw(found)
            if drawn != last:
                output.say((_CLEAR if sys.stdout.isatty() else "") + drawn)
                last = drawn
            if found.ended:
                return
            time.sleep(_WATCH_SECONDS)


def cancel(graph_id: GraphId, reason: Reason = "", output_format: Output = Format.TABLE) -> None:
    """Cancel all tasks of a graph that have not ended."""
    call = graph_calls.cancel(graph_id, reason)
    show(call, output_format, lambda done: f"cancelled {len(done.cancelled)}, stopping {len(done.cancelling)}")


def retry(graph_id: GraphId, reason: Reason = "", output_format: Output = Format.TABLE) -> None:
    """Retry the failed, cancelled and skipped tasks of a graph, within the graph."""
    show(graph_calls.retry(graph_id, reason), output_format, lambda made: graph_tables.ids(made.tasks))


def rerun(graph_id: GraphId, reason: Reason = "", output_format: Output = Format.TABLE) -> None:
    """Run a whole graph again as a new graph and print its id."""
    show(graph_calls.rerun(graph_id, reason), output_format, lambda made: str(made.id))
