"""`rota dead`: lists, shows, requeues and discards dead letters."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.commands.operations import carry_out
from rota.cli.shell import output
from rota.cli.shell.connection import TaskId, connect, show
from rota.cli.shell.filters import Chosen, chosen_letters, of_letters
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.tables import dead_letter_tables, task_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import dead_letter_calls
from rota.client.calls.operation_calls import OperationFilter
from rota.client.errors import NotFound


def add_to(app: typer.Typer) -> None:
    dead = add_group(app, "dead", "Manage dead letters: tasks that used up their attempts.")
    add_command(
        dead, "list", list_dead, "rota dead list", "rota dead list --over memory --since 1d", "rota dead list --graph 7"
    )
    add_command(dead, "show", show_dead, "rota dead show 7")
    add_command(dead, "requeue", requeue, "rota dead requeue 7 8", "rota dead requeue --name etl --since 1d")
    add_command(dead, "discard", discard, "rota dead discard 7", "rota dead discard --reason 'exit code 3' --dry-run")


@takes("wanted", of_letters)
def list_dead(
    *,
    tenant: Annotated[str | None, typer.Option(help="Dead letters of this tenant (administrators).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Length of a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    wanted: OperationFilter,
    output_format: Output = Format.TABLE,
) -> None:
    """List dead letters, newest first, each with its reason."""
    show(
        dead_letter_calls.dead(wanted, tenant=tenant, limit=limit, cursor=cursor),
        output_format,
        dead_letter_tables.page,
    )


def show_dead(task_id: TaskId, output_format: Output = Format.TABLE) -> None:
    """Show a dead letter with its attempts and every earlier run."""
    show(dead_letter_calls.letter(task_id), output_format, task_tables.letter)


@takes("chosen", chosen_letters)
def requeue(chosen: Chosen, output_format: Output = Format.TABLE) -> None:
    """Requeue dead letters as new tasks, by id, by filter, or --all.

    With a filter or --all, asks for confirmation unless --yes is given. Exit 4 if one can't be requeued.
    """
    if not chosen.ids:
        carry_out("requeue", chosen, output_format)
        return
    with connect() as client:
        body = client.exchange(call := dead_letter_calls.requeue(chosen.ids))
    answer = call.read(body)
    output.result(output_format, body, lambda: dead_letter_tables.requeued(answer))
    if answer.refused:
        raise typer.Exit(4)


@takes("chosen", chosen_letters)
def discard(chosen: Chosen, output_format: Output = Format.TABLE) -> None:
    """Discard dead letters, by id, by filter, or --all. Their history stays.

    With a filter or --all, asks for confirmation unless --yes is given. Of ids: exit 3 if none is a dead letter, 4 if
    only some are.
    """
    if not chosen.ids:
        carry_out("discard", chosen, output_format)
        return
    with connect() as client:
        body = client.exchange(call := dead_letter_calls.discard(chosen.ids))
    answer = call.read(body)
    if not answer.discarded:
        unknown = task_tables.some([one.id for one in answer.refused])
        raise NotFound(f"nothing to discard: there is no dead letter {unknown}", status=404, slug="not-found")
    output.result(output_format, body, lambda: dead_letter_tables.discarded(answer))
    if answer.refused:
        raise typer.Exit(4)
