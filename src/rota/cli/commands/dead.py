"""`rota dead`: lists, shows, requeues and discards dead letters."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import TaskId, connect, show
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.tables import task_tables
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import dead_letter_calls
from rota.client.calls.dead_letter_calls import DeadFilter
from rota.model.answers.dead_letters import RequeueAnswer

if TYPE_CHECKING:
    from rota.client._sync.client import Client

_LIMITS = ("cap", "memory", "disk", "processes", "files")


def add_to(app: typer.Typer) -> None:
    dead = add_group(app, "dead", "Manage dead letters: tasks that used up their attempts.")
    add_command(
        dead, "list", list_dead, "rota dead list", "rota dead list --over memory --since 1d", "rota dead list --graph 7"
    )
    add_command(dead, "show", show_dead, "rota dead show 7")
    add_command(dead, "requeue", requeue, "rota dead requeue 7 8", "rota dead requeue --name etl --since 1d")
    add_command(dead, "discard", discard, "rota dead discard 7", "rota dead discard --reason 'exit code 3' --dry-run")


def _filter(
    name: Annotated[str | None, typer.Option(help="Tasks with this name.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME=VALUE", help="Tasks with this tag.")] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Reason contains this text.")] = None,
    over: Annotated[
        str | None, typer.Option(metavar="LIMIT", help="Exceeded this limit: cap, memory, disk, processes or files.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Died since, e.g. 10m or 2026-03-01T08:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Died before this time.")] = None,
    graph: Annotated[int | None, typer.Option(metavar="ID", min=1, help="Tasks of this graph or array.")] = None,
    schedule: Annotated[str | None, typer.Option(metavar="NAME", help="Runs of this schedule.")] = None,
) -> DeadFilter:
    return {
        "name": name,
        "tag": checks.pair("--tag", tag) if tag is not None else None,
        "reason": reason,
        "over": checks.one_of("--over", over, _LIMITS),
        "since": checks.since("--since", since),
        "until": checks.since("--until", until),
        "graph": graph,
        "schedule": schedule,
    }


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Dead letters by id; without ids, by the filter."""

    ids: list[int]
    wanted: DeadFilter
    dry_run: bool
    yes: bool


@takes("wanted", _filter)
def _choose(
    *,
    task_ids: Annotated[list[int] | None, typer.Argument(metavar="[ID...]", min=1, help="Ids of dead letters.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show how many match.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")] = False,
    wanted: DeadFilter,
) -> _Chosen:
    filtered = any(value is not None for value in wanted.values())
    if [bool(task_ids), everything, filtered].count(True) != 1:
        raise checks.wrong("ID", "name tasks, or give a filter such as --name, or --all")
    if dry_run and task_ids:
        raise checks.wrong("--dry-run", "a dry run needs a filter, such as --name, or --all")
    return _Chosen(task_ids or [], wanted, dry_run, yes or everything)


@takes("wanted", _filter)
def list_dead(
    *,
    tenant: Annotated[str | None, typer.Option(help="Dead letters of this tenant (administrators).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Length of a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    wanted: DeadFilter,
    output_format: Output = Format.TABLE,
) -> None:
    """List dead letters, newest first, each with its reason."""
    show(dead_letter_calls.dead(wanted, tenant=tenant, limit=limit, cursor=cursor), output_format, task_tables.dead)


def show_dead(task_id: TaskId, output_format: Output = Format.TABLE) -> None:
    """Show a dead letter with its attempts and every earlier run."""
    show(dead_letter_calls.letter(task_id), output_format, task_tables.letter)


@takes("chosen", _choose)
def requeue(chosen: _Chosen, output_format: Output = Format.TABLE) -> None:
    """Requeue dead letters as new tasks, by id, by filter, or --all.

    With a filter, asks for confirmation unless --yes is given. Exit 4 if one can't be requeued.
    """
    with connect() as client:
        if chosen.ids:
            body = client.exchange(call := dead_letter_calls.requeue(chosen.ids))
            whole = call.read(body)
        else:
            before = _agreed(client, chosen, "requeue", output_format)
            if before is None:
                return
            whole = RequeueAnswer()
            while (some := client.perform(dead_letter_calls.requeue(None, chosen.wanted, before))).requeued:
                whole = RequeueAnswer(requeued=whole.requeued + some.requeued)
            whole = RequeueAnswer(requeued=whole.requeued, refused=some.refused)  # every round returns these again
            body = msgspec.json.encode(whole)
    total = "" if chosen.ids else f"\nrequeued {len(whole.requeued):,}"
    output.result(output_format, body, lambda: task_tables.requeued(whole) + total)
    if whole.refused:
        raise typer.Exit(4)


@takes("chosen", _choose)
def discard(chosen: _Chosen, output_format: Output = Format.TABLE) -> None:
    """Discard dead letters, by id, by filter, or --all. Their history stays.

    With a filter, asks for confirmation unless --yes is given.
    """
    gone: list[int] = []
    with connect() as client:
        if chosen.ids:
            gone += client.perform(dead_letter_calls.discard(chosen.ids)).discarded
        else:
            before = _agreed(client, chosen, "discard", output_format)
            if before is None:
                return
            while some := client.perform(dead_letter_calls.discard(None, chosen.wanted, before)).discarded:
                gone += some
    output.result(output_format, msgspec.json.encode({"discarded": gone}), lambda: f"discarded {len(gone):,}")


def _agreed(client: Client, chosen: _Chosen, word: str, output_format: Format) -> datetime | None:
    """Shows how many dead letters match and asks; returns the time of the count, or None if the answer is no.

    Only letters from before that time are changed: a requeued task may die again before the last one is requeued.
    """
    counted = client.perform(dead_letter_calls.count(chosen.wanted))
    said = f"{counted.count:,}{' or more' if counted.or_more else ''} dead letter{'' if counted.count == 1 else 's'}"
    if chosen.dry_run:
        output.result(output_format, msgspec.json.encode(counted), lambda: f"would {word} {said}")
        return None
    if chosen.yes or not counted.count:
        return counted.at
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(f"this would {word} {said}; confirm with --yes", param_hint="--yes")
    return counted.at if typer.confirm(f"{word} {said}?", err=True) else None
