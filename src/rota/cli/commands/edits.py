"""`rota edit`, `rota hold`, `rota release`: change tasks that wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from rota.cli.commands.operations import carry_out
from rota.cli.shell import checks, output
from rota.cli.shell.connection import Reason, connect, each, of_one_task
from rota.cli.shell.filters import Chosen, chosen_tasks
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.tables import task_tables
from rota.cli.tables.render import add_command
from rota.client.calls import conversations, graph_calls, task_calls
from rota.client.calls.call import Call
from rota.client.calls.task_calls import HoldReport
from rota.client.errors import NotFound, Refused
from rota.model.answers.graphs import GraphHeld
from rota.model.answers.task_changes import HoldAnswer, RefusedTask


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "edit",
        edit,
        "rota edit 7 --priority 9 --lane urgent",
        "rota edit 7 --cap 2h --tolerance 5m",
        "rota edit 7 --pool big",
        "rota edit 7 --in 2h",
        "rota edit --name etl --state ready --lane off-peak",
    )
    add_command(
        app, "hold", hold, "rota hold 7", "rota hold 7 8 9 --reason 'waits for the new data'", "rota hold --name etl"
    )
    add_command(app, "release", release, "rota release 7", "rota release 7 8 9", "rota release --name etl")


@takes("chosen", chosen_tasks)
def edit(
    chosen: Chosen,
    priority: Annotated[int | None, typer.Option(help="Order among your own tasks; higher runs first.")] = None,
    lane: Annotated[str | None, typer.Option(help="Lane: urgent, normal, periodic, off-peak, …")] = None,
    cap: Annotated[str | None, typer.Option(metavar="DURATION", help="Time limit of an attempt.")] = None,
    tolerance: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long the start may be delayed, counted as before.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Move to this pool.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start then at the earliest, instead of before.")
    ] = None,
    in_: Annotated[
        str | None, typer.Option("--in", metavar="DURATION", help="Start after this time from now; 0s: at once.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Change only if this is still its version (rota show -o json).")
    ] = None,
    reason: Reason = "",
    output_format: Output = Format.TABLE,
) -> None:
    """Change waiting tasks.

    By id, by filter, or --all. Options that are not given keep their values. With a filter or --all, asks for
    confirmation unless --yes is given. Exit 4 if a task runs or has ended. Use rota extend to change the cap of a
    running task.
    """
    changes = checks.given(
        priority=priority,
        lane=lane,
        cap=checks.duration("--cap", cap),
        tolerance=checks.duration("--tolerance", tolerance),
        pool=pool,
        at=checks.moment("--at", at),
        delay=checks.duration("--in", in_),
    )
    if at is not None and in_ is not None:
        raise checks.wrong("--at", "give --at or --in, not both")
    checks.some("edit", changes, "thing to change")
    because = task_calls.because(reason) or {}
    if not chosen.ids:
        if version is not None:
            raise checks.wrong("--version", "a version is that of one task; name its id")
        carry_out("edit", chosen, output_format, {**changes, **because})
        return

    def one(task_id: int) -> None:
        with connect() as client:
            edited = client.converse(conversations.edited(task_id, {**changes, **because}, version))
        output.result(output_format, msgspec.json.encode(edited), lambda: task_tables.edited(edited))

    each(chosen.ids, lambda task_id: of_one_task(one)(task_id=task_id))


@takes("chosen", chosen_tasks)
def hold(
    chosen: Chosen,
    reason: Reason = "",
    output_format: Output = Format.TABLE,
) -> None:
    """Keep waiting tasks from starting until you release them.

    By id, by filter, or --all. The id of an array or a graph holds all of its waiting tasks. A running task can't be
    held: rota pause stops it with a checkpoint. With a filter or --all, asks for confirmation unless --yes is given.
    Exit 4 if a named task runs, has ended or is unknown.
    """
    if not chosen.ids:
        carry_out("hold", chosen, output_format, {"reason": reason} if reason else None)
        return
    held = task_calls.hold_many(chosen.ids, reason)
    _many("held", held, lambda graph: graph_calls.hold(graph, reason), output_format)


@takes("chosen", chosen_tasks)
def release(chosen: Chosen, reason: Reason = "", output_format: Output = Format.TABLE) -> None:
    """Release held tasks, with the tolerance they had left.

    By id, by filter, or --all. The id of an array or a graph releases all of its tasks.
    With a filter or --all, asks for confirmation unless --yes is given. Exit 4 if a named task has ended or is unknown.
    """
    if not chosen.ids:
        carry_out("release", chosen, output_format, task_calls.because(reason))
        return
    released = task_calls.release_many(chosen.ids, reason)
    _many("released", released, lambda graph: graph_calls.release(graph, reason), output_format)


def _many(word: str, call: Call[HoldAnswer], of_graph: Callable[[int], Call[GraphHeld]], output_format: Format) -> None:
    wholes: list[GraphHeld] = []
    refused: list[RefusedTask] = []
    with connect() as client:
        body = client.exchange(call)
        answer = call.read(body)
        for one in answer.refused:
            if one.reason != "unknown":
                refused.append(one)
                continue
            try:
                wholes.append(client.perform(of_graph(one.id)))
            except NotFound:
                refused.append(one)
            except Refused:  # a graph that has ended
                refused.append(RefusedTask(id=one.id, reason="ended"))
    report = HoldReport(held=answer.held, released=answer.released, refused=refused, graphs=wholes)
    body = msgspec.json.encode(report) if wholes else body
    output.result(output_format, body, lambda: task_tables.held(report, word))
    if report.refused:
        raise typer.Exit(4)
