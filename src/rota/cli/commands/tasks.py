"""Commands for tasks: list, show, why, attempts, result, cancel, pause, resume, retry, extend."""

from __future__ import annotations

import functools
import sys
from typing import Annotated

import msgspec
import typer

from rota.cli.commands import graphs
from rota.cli.commands.operations import carry_out
from rota.cli.shell import checks, output
from rota.cli.shell.connection import Reason, TaskId, connect, each, if_graph, of_one_task, show
from rota.cli.shell.filters import Chosen, chosen_tasks, of_tasks
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.tables import graph_drawing, task_tables, waiting_tables
from rota.cli.tables.live import watch
from rota.cli.tables.render import add_command
from rota.client.calls import graph_calls, task_calls, waiting_calls
from rota.client.calls.call import Call
from rota.client.calls.operation_calls import OperationFilter
from rota.client.calls.outcomes import result_of
from rota.client.errors import NotFound, Refused, TaskFailed, WaitTimeout
from rota.model.answers.tasks import TaskPage, TaskResult

WATCH_SECONDS = 2.0
MOST_EMPTY_PAGES = 50  # the server searches a bounded number of tasks per page, so a page can be empty


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "list",
        list_tasks,
        "rota list",
        "rota list --status failed --limit 10",
        "rota list --tag team=ml --all -o json",
        "rota list --schedule nightly --since 7d",
        "rota list --graph 12 --status failed",
        "rota list --behind 7 --status waiting",
        "rota list --graph 12 --behind extract",
        "rota list --watch --state running",
    )
    add_command(app, "show", show_task, "rota show 7", "rota show 7 -o json")
    add_command(app, "why", of_one_task(why), "rota why 7", "rota why 7 -o json")
    add_command(app, "attempts", attempts, "rota attempts 7", "rota attempts 12 --all   (12: an array or a graph)")
    add_command(
        app,
        "result",
        result,
        "rota result 7",
        "rota result 7 | jq .total",
        "rota result 12 | jq 'add'   (12: an array; a list)",
    )
    add_command(
        app,
        "cancel",
        cancel,
        "rota cancel 7",
        "rota cancel 7 8 9",
        "rota cancel --name etl --older-than 2h",
        "rota cancel --all --dry-run",
    )
    add_command(app, "pause", of_one_task(pause), "rota pause 7")
    add_command(app, "resume", of_one_task(resume), "rota resume 7")
    add_command(app, "retry", retry, "rota retry 7", "rota retry --name etl --since 1d")
    add_command(app, "extend", of_one_task(extend), "rota extend 7 +1h", "rota extend 7 3h")


@takes("wanted", of_tasks)
def list_tasks(
    *,
    wanted: OperationFilter,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="TASK", help="Tasks that this one depends on: its id, or its name in --graph, or 12/name."
        ),
    ] = None,
    behind: Annotated[
        str | None,
        typer.Option(metavar="TASK", help="Tasks that depend on this one: its id, or its name in --graph, or 12/name."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Tasks of this tenant (administrators).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Length of a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all pages.")] = False,
    flat: Annotated[bool, typer.Option("--flat", help="Show each task of an array on its own line.")] = False,
    watching: Annotated[bool, typer.Option("--watch", help="Refresh until you press q.")] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """List your tasks, newest first. An array is one line, unless you filter by what differs among its tasks."""
    differing = ("state", "status", "tag", "graph", "worker")
    fold = not flat and not any((before, behind, *(wanted.get(name) for name in differing)))

    def page(at: str | None) -> Call[TaskPage]:
        return task_calls.tasks(
            fold_arrays=fold,
            name=wanted["name"],
            tag=wanted["tag"],
            state=wanted["state"],
            status=wanted["status"],
            schedule=wanted["schedule"],
            graph=wanted["graph"],
            ancestors_of=before,
            descendants_of=behind,
            worker=wanted["worker"],
            user=wanted["user"],
            since=wanted["since"],
            until=wanted["until"],
            tenant=tenant,
            limit=limit,
            cursor=at,
        )

    if watching and output_format is Format.TABLE and sys.stdout.isatty():
        with connect() as client:
            watch(lambda: task_tables.page(client.perform(page(cursor)), whole=False), WATCH_SECONDS)
        return
    if not everything and output_format is Format.TABLE:
        with connect() as client:
            found = client.perform(page(cursor))
            for _ in range(MOST_EMPTY_PAGES):
                if found.tasks or found.next is None:
                    break
                found = client.perform(page(found.next))
        output.say(task_tables.page(found))
        return
    if not everything:
        show(page(cursor), output_format, task_tables.page)
        return
    with connect() as client:
        at: str | None = cursor
        shown = False
        while True:
            body = client.exchange(page(at))
            found = page(at).read(body)
            at = found.next
            if output_format is Format.JSON:
                output.document(body)
            elif found.tasks or (at is None and not shown):
                output.say(task_tables.page(found, whole=False))
                shown = True
            if at is None:
                return


def show_task(task_id: TaskId, output_format: Output = Format.TABLE) -> None:
    """Show all details of a task, or draw an array or a graph.

    A task that may submit is followed by a drawing of what it submitted.
    """
    try:
        with connect() as client:
            body = client.exchange(task_calls.task(task_id))
            own = task_calls.task(task_id).read(body).own_graph
            whole = client.perform(graph_calls.graph(own)) if own and output_format is Format.TABLE else None
    except NotFound as unknown:
        if_graph(unknown, lambda: show(graph_calls.graph(task_id), output_format, graph_drawing.draw))
        return
    drawn = "" if whole is None or whole.size == 1 else f"\n\n{graph_drawing.draw(whole)}"
    output.result(output_format, body, lambda: task_tables.task(task_calls.task(task_id).read(body)) + drawn)


def why(task_id: TaskId, output_format: Output = Format.TABLE) -> None:
    """Explain why a task waits, and estimate when it starts."""
    show(waiting_calls.why(task_id), output_format, waiting_tables.why)


def attempts(
    task_id: TaskId,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Tasks a page, of an array or a graph.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all pages.")] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """List the attempts of a task: where, when, and how each ended. Of an array or a graph, those of each task."""
    with connect() as client:
        while True:
            call = task_calls.attempts(task_id, limit=limit, cursor=cursor)
            body = client.exchange(call)
            page = call.read(body)
            output.result(output_format, body, functools.partial(task_tables.attempts, page))
            cursor = page.next
            if cursor is not None and not everything and output_format is Format.TABLE:
                output.note(f"there are more tasks: rota attempts {task_id} --cursor {cursor}, or --all")
            if cursor is None or not everything:
                return


def result(task_id: TaskId, output_format: Output = Format.TABLE) -> None:
    """Print the JSON result of a task. Of an array, a list; of a graph, an object with the result of each task by name.

    Exit 1 if a task failed, 6 if one has not ended; of an array or a graph, the other results are printed.
    """
    try:
        with connect() as client:
            body = client.exchange(task_calls.task(task_id))
    except NotFound as unknown:
        if_graph(unknown, lambda: _results(task_id, output_format))
        return
    document = task_calls.task(task_id).read(body)
    if not document.ended:
        raise WaitTimeout(f"task {task_id} has not ended: it is {document.state} (rota wait {task_id})", task_ids=())
    value = result_of(document)
    output.document(body if output_format is Format.JSON else msgspec.json.encode(value))


def _results(group: int, output_format: Format) -> None:
    found: list[TaskResult] = []
    cursor: str | None = None
    with connect() as client:
        while True:
            call = task_calls.results(group, limit=100, cursor=cursor)
            body = client.exchange(call)
            page = call.read(body)
            found += page.results
            if output_format is Format.JSON:
                output.document(body)
            cursor = page.next
            if cursor is None:
                break
    if output_format is Format.TABLE:
        is_array = all(one.index is not None for one in found)
        values = [one.result for one in found] if is_array else {one.name: one.result for one in found}
        output.document(msgspec.json.encode(values))
    failed = [one for one in found if one.ended and one.state != "done"]
    if failed:
        which = task_tables.some([one.id for one in failed])
        sentence = f"{len(failed)} of {len(found)} tasks are not done: {which} (rota show ID says why)"
        raise TaskFailed(sentence, task_id=failed[0].id, state=failed[0].state)
    waiting = [one.id for one in found if not one.ended]
    if waiting:
        which = task_tables.some(waiting)
        sentence = f"{len(waiting)} of {len(found)} tasks have not ended: {which} (rota wait {group})"
        raise WaitTimeout(sentence, task_ids=tuple(waiting))


@takes("chosen", chosen_tasks)
def cancel(chosen: Chosen, reason: Reason = "", output_format: Output = Format.TABLE) -> None:
    """Cancel tasks, waiting or running.

    By id, by filter, or --all. The id of an array or a graph cancels all of its tasks. With a filter or --all, asks
    for confirmation unless --yes is given. Exit 4 if one can't be cancelled.
    """
    if not chosen.ids:
        carry_out("cancel", chosen, output_format, task_calls.because(reason))
        return
    if len(chosen.ids) == 1:
        [task_id] = chosen.ids
        try:
            show(task_calls.cancel(task_id, reason), output_format, task_tables.cancelled)
        except NotFound as unknown:
            if_graph(unknown, lambda: graphs.cancel(task_id, reason, output_format))
        return
    with connect() as client:
        call = task_calls.cancel_many(chosen.ids, reason)
        body = client.exchange(call)
    answer = call.read(body)
    output.result(output_format, body, lambda: task_tables.cancelled_many(answer))
    if answer.refused:
        raise typer.Exit(4)


def pause(task_id: TaskId, reason: Reason = "", output_format: Output = Format.TABLE) -> None:
    """Stop a running task, or keep a waiting one from starting, until you resume it.

    A running task is asked to save a checkpoint and stop; this uses no attempt. To keep many waiting tasks from
    starting, use rota hold.
    """
    show(task_calls.pause(task_id, reason), output_format, task_tables.paused)


def resume(task_id: TaskId, reason: Reason = "", output_format: Output = Format.TABLE) -> None:
    """Resume a paused task, from its checkpoint if it has one."""
    show(task_calls.resume(task_id, reason), output_format, task_tables.resumed)


@takes("chosen", chosen_tasks)
def retry(chosen: Chosen, reason: Reason = "", output_format: Output = Format.TABLE) -> None:
    """Run ended tasks again as new tasks and print their ids.

    Of an array or a graph, run all tasks that are not done. With a filter or --all: those that failed or expired
    (with --state also others) and were not retried yet; asks for confirmation unless --yes is given. Exit 4 if one
    can't be retried.
    """
    if not chosen.ids:
        carry_out("retry", chosen, output_format, task_calls.because(reason))
        return

    def one(task_id: int) -> None:
        try:
            show(task_calls.retry(task_id, reason), output_format, lambda answer: str(answer.id))
        except NotFound as unknown:
            if_graph(unknown, lambda: graphs.retry(task_id, reason, output_format))

    each(chosen.ids, one)


def extend(
    task_id: TaskId,
    amount: Annotated[
        str, typer.Argument(metavar="+DURATION|DURATION", help="+1h: an hour more; 3h: a cap of 3 hours.")
    ],
    reason: Reason = "",
    output_format: Output = Format.TABLE,
) -> None:
    """Extend the time limit of a waiting or running task.

    The cap counts from the start of an attempt. The plan limits it.
    """
    wanted = checks.duration("DURATION", amount.removeprefix("+"))
    longer = amount.startswith("+")
    call = task_calls.extend(task_id, by=wanted if longer else None, cap=None if longer else wanted, reason=reason)
    try:
        show(call, output_format, task_tables.extended)
    except Refused as refusal:
        if not refusal.faults or output_format is Format.JSON:
            raise
        said = f"DURATION {amount}: {refusal.faults[0].detail}"
        raise Refused(said, status=refusal.status, slug=refusal.slug, document=refusal.document) from None
