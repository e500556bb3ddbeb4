"""`rota dead`: lists, shows, requeues and discards dead letters."""

# No postponed annotations here: `_takes_filter` and Typer read them as the types they are.

import functools
import inspect
import sys
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

import msgspec
import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import TaskId, connect, show
from rota.cli.shell.output import Format, Output
from rota.cli.tables import task_tables
from rota.cli.tables.render import examples
from rota.client.calls import dead_letter_calls
from rota.client.calls.dead_letter_calls import DeadFilter
from rota.model.answers.dead_letters import RequeueAnswer

if TYPE_CHECKING:
    from rota.client._sync.client import Client

_Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID...]", min=1, help="Ids of dead letters.")]
_All = Annotated[bool, typer.Option("--all", help="All dead letters.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show how many match.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]

_LIMITS = ("cap", "memory", "disk", "processes", "files")


def add_to(app: typer.Typer) -> None:
    dead = typer.Typer(help="Manage dead letters: tasks that used up their attempts.", rich_markup_mode="rich")
    dead.command(
        "list", epilog=examples("rota dead list", "rota dead list --over memory --since 1d", "rota dead list --graph 7")
    )(list_dead)
    dead.command("show", epilog=examples("rota dead show 7"))(show_dead)
    dead.command("requeue", epilog=examples("rota dead requeue 7 8", "rota dead requeue --name etl --since 1d"))(
        requeue
    )
    dead.command(
        "discard", epilog=examples("rota dead discard 7", "rota dead discard --reason 'exit code 3' --dry-run")
    )(discard)
    app.add_typer(dead, name="dead")


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
) -> "DeadFilter":
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


def _takes_filter(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `_filter`; it receives the filter as `wanted`."""
    shared = inspect.signature(_filter).parameters
    own = inspect.signature(command).parameters

    @functools.wraps(command)
    def with_filter(**values: object) -> None:
        build = cast(Callable[..., "DeadFilter"], _filter)
        command(wanted=build(**{name: values.pop(name) for name in shared}), **values)

    merged = [*(one for name, one in own.items() if name != "wanted"), *shared.values()]
    merged.sort(key=lambda one: one.name == "output_format")
    with_filter.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
    with_filter.__annotations__ = {one.name: one.annotation for one in merged}
    return with_filter


@_takes_filter
def list_dead(
    wanted: "DeadFilter",
    tenant: Annotated[str | None, typer.Option(help="Dead letters of this tenant (administrators).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Length of a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """List dead letters, newest first, each with its reason."""
    show(dead_letter_calls.dead(wanted, tenant=tenant, limit=limit, cursor=cursor), output_format, task_tables.dead)


def show_dead(task_id: TaskId, output_format: Output = Format.TABLE) -> None:
    """Show a dead letter with its attempts and every earlier run."""
    show(dead_letter_calls.letter(task_id), output_format, task_tables.letter)


@_takes_filter
def requeue(
    wanted: "DeadFilter",
    task_ids: _Ids = None,
    everything: _All = False,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Requeue dead letters as new tasks, by id, by filter, or --all.

    With a filter, asks for confirmation unless --yes is given. Exit 4 if one can't be requeued.
    """
    _one_way(wanted, task_ids, everything, dry_run=dry_run)
    with connect() as client:
        if task_ids:
            body = client.exchange(call := dead_letter_calls.requeue(task_ids))
            whole = call.read(body)
        else:
            before = _agreed(
                client, wanted, "requeue", dry_run=dry_run, yes=yes or everything, output_format=output_format
            )
            if before is None:
                return
            whole = RequeueAnswer()
            while (some := client.perform(dead_letter_calls.requeue(None, wanted, before))).requeued:
                whole = RequeueAnswer(requeued=whole.requeued + some.requeued)
            whole = RequeueAnswer(requeued=whole.requeued, refused=some.refused)  # every round returns these again
            body = msgspec.json.encode(whole)
    if output_format is Format.JSON:
        output.document(body)
    else:
        output.say(task_tables.requeued(whole) + ("" if task_ids else f"\nrequeued {len(whole.requeued):,}"))
    if whole.refused:
        raise typer.Exit(4)


@_takes_filter
def discard(
    wanted: "DeadFilter",
    task_ids: _Ids = None,
    everything: _All = False,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Discard dead letters, by id, by filter, or --all. Their history stays.

    With a filter, asks for confirmation unless --yes is given.
    """
    _one_way(wanted, task_ids, everything, dry_run=dry_run)
    gone: list[int] = []
    with connect() as client:
        if task_ids:
            gone += client.perform(dead_letter_calls.discard(task_ids)).discarded
        else:
            before = _agreed(
                client, wanted, "discard", dry_run=dry_run, yes=yes or everything, output_format=output_format
            )
            if before is None:
                return
            while some := client.perform(dead_letter_calls.discard(None, wanted, before)).discarded:
                gone += some
    if output_format is Format.JSON:
        output.document(msgspec.json.encode({"discarded": gone}))
    else:
        output.say(f"discarded {len(gone):,}")


def _one_way(wanted: "DeadFilter", task_ids: list[int] | None, everything: bool, *, dry_run: bool) -> None:
    given = any(value is not None for value in wanted.values())
    if [bool(task_ids), everything, given].count(True) != 1:
        raise typer.BadParameter("name tasks, or give a filter such as --name, or --all", param_hint="ID")
    if dry_run and task_ids:
        raise typer.BadParameter("it goes with a filter, such as --name, or --all", param_hint="--dry-run")


def _agreed(
    client: "Client", wanted: "DeadFilter", word: str, *, dry_run: bool, yes: bool, output_format: Format
) -> "datetime | None":
    """Shows how many dead letters match and asks; returns the time of the count, or None if the answer is no.

    Only letters from before that time are changed: a requeued task may die again before the last one is requeued.
    """
    counted = client.perform(dead_letter_calls.count(wanted))
    said = f"{counted.count:,}{' or more' if counted.or_more else ''} dead letter{'' if counted.count == 1 else 's'}"
    if dry_run:
        if output_format is Format.JSON:
            output.document(msgspec.json.encode(counted))
        else:
            output.say(f"would {word} {said}")
        return None
    if yes or not counted.count:
        return counted.at
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(f"it would {word} {said}; say --yes, or --dry-run to see how many", param_hint="--yes")
    return counted.at if typer.confirm(f"{word} {said}?", err=True) else None
