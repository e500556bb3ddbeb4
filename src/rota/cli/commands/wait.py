"""`rota wait`: waits until tasks have ended, with a progress bar on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, TaskIds, connect, leaving_tasks_running
from rota.cli.shell.output import Format, Output
from rota.cli.shell.trouble import TRY_LATER
from rota.cli.tables import task_tables
from rota.cli.tables.progress_bar import progress_bar
from rota.cli.tables.render import add_command
from rota.client.calls import graph_calls, task_calls
from rota.client.calls.conversations import wait_for_all
from rota.client.errors import NotFound, WaitTimeout
from rota.model.answers.tasks import EndedTask, WaitAnswer
from rota.model.units import milliseconds_of

if TYPE_CHECKING:
    from rota.client._sync.client import Client

# The server answers when all tasks have ended or the round is over; a moving bar needs shorter rounds than a script.
_WATCHED_ROUND_SECONDS = 2.0


def add_to(app: typer.Typer) -> None:
    add_command(app, "wait", wait, "rota wait 7", "rota wait 7 8 9 --timeout 10m")


def wait(
    task_ids: TaskIds,
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="Give up after this long: 90, 10m.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Wait until tasks have ended. The id of an array or a graph waits for all of its tasks.

    A task that may submit is waited for with all that it submits, also later.

    Exit 0 if all are done, 75 if the only others have expired, else 1; 6 if the time is up.
    """
    checked = checks.duration("--timeout", timeout)
    timeout_seconds = milliseconds_of(checked) / 1000 if checked is not None else None
    wanted = list(dict.fromkeys(task_ids))
    ended: dict[int, EndedTask] = {}
    late: WaitTimeout | None = None
    watched = sys.stderr.isatty()
    with (
        leaving_tasks_running(wanted),
        connect(FOLLOW_RETRY_SECONDS) as client,
        progress_bar(len(wanted)) as seen,
    ):

        def heard(answer: WaitAnswer) -> None:
            ended.update((task.id, task) for task in answer.ended)
            seen(len(ended), "")
            if watched and len(wanted) == 1 and not ended:
                progress = client.get(wanted[0]).progress
                if progress is not None:
                    seen(progress.fraction or 0.0, f"{progress.fraction or 0:.0%} {progress.message}")

        began = time.monotonic()
        longest = _WATCHED_ROUND_SECONDS if watched else client.longest_wait_seconds
        asked, wanted, growing = wanted, [], set[int]()
        try:
            while new := _joined(client, asked, growing, set(wanted)):
                wanted += new
                left = None if timeout_seconds is None else max(0.0, timeout_seconds - (time.monotonic() - began))
                client.converse(wait_for_all(new, left, time.monotonic, heard, longest))
        except WaitTimeout as error:
            late = error
    found = [ended[task_id] for task_id in wanted if task_id in ended]
    if output_format is Format.JSON:
        output.document(msgspec.json.encode({"ended": found, "pending": len(wanted) - len(found)}))
    elif found:
        output.say(task_tables.ended(found))
    if late is not None:
        raise late
    others = {task.state for task in ended.values()} - {"done"}
    if others:
        raise typer.Exit(TRY_LATER if others == {"expired"} else 1)


def _joined(client: Client, asked: list[int], growing: set[int], known: set[int]) -> list[int]:
    """The tasks to wait for that are not `known`: those asked for, then those that have joined their graphs.

    `growing` gets the ids of these graphs. Tasks join while a task of the graph runs, so that there is an end to it.
    """
    tasks = [] if known else _tasks_among(client, asked, growing)
    for graph in sorted(growing):
        tasks += [task.id for task in client.perform(graph_calls.graph(graph)).tasks]
    return [task for task in dict.fromkeys(tasks) if task not in known]


def _tasks_among(client: Client, ids: list[int], growing: set[int]) -> list[int]:
    """Those of the ids that are tasks; graphs and arrays among them, and the graphs of tasks, go to `growing`."""
    try:
        growing.update(client.perform(task_calls.wait_for(ids, 0, graphs=True)).graphs.values())
        return list(ids)
    except NotFound as unknown:
        found: list[int] = []
        for number in ids:
            try:
                growing.add(client.perform(graph_calls.graph(number)).id)
            except NotFound:
                if len(ids) == 1:
                    raise unknown from None
                found.append(number)
        if found:
            growing.update(client.perform(task_calls.wait_for(found, 0, graphs=True)).graphs.values())
        return found
