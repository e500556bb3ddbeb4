"""The filters of tasks and of dead letters: the same options for lists, and for commands that change what they select.

Such a command takes ids, or filters, or --all: see `Chosen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.shared_options import takes
from rota.client.calls.operation_calls import OperationFilter
from rota.model.task import State, Status

_LIMITS = ("cap", "memory", "disk", "processes", "files")


def _of_both(
    name: Annotated[str | None, typer.Option(help="With this name.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME=VALUE", help="With this tag.")] = None,
    schedule: Annotated[str | None, typer.Option(metavar="NAME", help="Runs of this schedule.")] = None,
    graph: Annotated[
        int | None, typer.Option(metavar="ID", min=1, help="Of this graph or array, or submitted by this task.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Submitted by this user.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Submitted (dead letters: died) since, e.g. 10m or 2026-03-01T08:00Z."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Submitted (or died) before this time.")] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Submitted (or died) longer ago than this, e.g. 2h.")
    ] = None,
) -> OperationFilter:
    if until is not None and older_than is not None:
        raise checks.wrong("--older-than", "give --until or --older-than, not both")
    return {
        "name": name,
        "tag": checks.pair("--tag", tag) if tag is not None else None,
        "schedule": schedule,
        "graph": graph,
        "user": user,
        "since": checks.since("--since", since),
        "until": checks.since("--until", until) or checks.duration("--older-than", older_than),
    }


@takes("both", _of_both)
def of_tasks(
    *,
    state: Annotated[
        str | None, typer.Option(metavar="STATE[,STATE]", help="ready, running, done, failed, …; several are fine.")
    ] = None,
    status: Annotated[str | None, typer.Option(help="waiting, 'in progress', done, failed, cancelled.")] = None,
    both: OperationFilter,
    worker: Annotated[str | None, typer.Option(metavar="NODE", help="That ran or run on this node.")] = None,
) -> OperationFilter:
    """The filter of tasks."""
    for one in state.split(",") if state is not None else ():
        checks.one_of("--state", one, [known.label for known in State])
    checks.one_of("--status", status, [one.value for one in Status])
    return {**both, "state": state, "status": status, "worker": worker}


@takes("both", _of_both)
def of_letters(
    *,
    both: OperationFilter,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Reason contains this text.")] = None,
    over: Annotated[
        str | None, typer.Option(metavar="LIMIT", help="Exceeded this limit: cap, memory, disk, processes or files.")
    ] = None,
) -> OperationFilter:
    """The filter of dead letters."""
    return {**both, "reason": reason, "over": checks.one_of("--over", over, _LIMITS)}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a command changes: by id; without ids, all that the filter selects."""

    ids: list[int]
    wanted: OperationFilter
    dry_run: bool
    yes: bool


Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID...]", min=1, help="Ids.")]
Everything = Annotated[bool, typer.Option("--all", help="All, instead of ids or filters.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show how many match.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]


@takes("wanted", of_tasks)
def chosen_tasks(
    *,
    task_ids: Ids = None,
    wanted: OperationFilter,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Chosen:
    return _chosen(task_ids or (), wanted, everything=everything, dry_run=dry_run, yes=yes)


@takes("wanted", of_letters)
def chosen_letters(
    *,
    task_ids: Ids = None,
    wanted: OperationFilter,
    everything: Everything = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Chosen:
    return _chosen(task_ids or (), wanted, everything=everything, dry_run=dry_run, yes=yes)


def _chosen(ids: Sequence[int], wanted: OperationFilter, *, everything: bool, dry_run: bool, yes: bool) -> Chosen:
    filtered = any(value is not None for value in wanted.values())
    if [bool(ids), everything, filtered].count(True) != 1:
        raise checks.wrong("ID", "name tasks, or give a filter such as --name, or --all; one of the three")
    if dry_run and ids:
        raise checks.wrong("--dry-run", "a dry run needs a filter, such as --name, or --all")
    return Chosen(list(ids), wanted, dry_run, yes)
