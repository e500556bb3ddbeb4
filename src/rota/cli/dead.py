"""`rota dead`: tasks that used up their attempts; look at them, run them again, or let them go."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.connection import show
from rota.cli.output import Format, Output
from rota.cli.render import examples

_Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID...]", min=1, help="Ids of dead tasks.")]
_All = Annotated[bool, typer.Option("--all", help="All of them.")]


NAMES = ("dead",)


def add_to(app: typer.Typer) -> None:
    dead = typer.Typer(help="Dead letters: tasks that used up their attempts.", rich_markup_mode="rich")
    dead.command("list", epilog=examples("rota dead list", "rota dead list --limit 10"))(list_dead)
    dead.command("requeue", epilog=examples("rota dead requeue 7 8", "rota dead requeue --all"))(requeue)
    dead.command("discard", epilog=examples("rota dead discard 7", "rota dead discard --all"))(discard)
    app.add_typer(dead, name="dead")


def list_dead(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many on a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="The next page, as the last one named it.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Dead letters, newest first, with the reason of each."""
    from rota.cli import task_tables
    from rota.client import calls

    show(calls.dead(limit=limit, cursor=cursor), output_format, task_tables.dead)


def requeue(task_ids: _Ids = None, everything: _All = False, output_format: Output = Format.TABLE) -> None:
    """Run dead letters again, each as a new task."""
    from rota.cli import task_tables
    from rota.client import calls

    show(calls.requeue_dead(_chosen(task_ids, everything)), output_format, task_tables.requeued)


def discard(task_ids: _Ids = None, everything: _All = False, output_format: Output = Format.TABLE) -> None:
    """Take dead letters off the list. Their history stays."""
    from rota.client import calls

    call = calls.discard_dead(_chosen(task_ids, everything))
    show(call, output_format, lambda answer: f"discarded {len(answer.discarded)}")


def _chosen(task_ids: list[int] | None, everything: bool) -> list[int] | None:
    if bool(task_ids) == everything:
        raise typer.BadParameter("name tasks, or give --all", param_hint="ID")
    return None if everything else task_ids
