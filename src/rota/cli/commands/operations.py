"""`rota operation`, and how commands change all tasks that a filter selects: count, ask, one request, follow it."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, connect, show
from rota.cli.shell.filters import Chosen
from rota.cli.shell.output import Format, Output
from rota.cli.tables import operation_tables
from rota.cli.tables.progress_bar import progress_bar
from rota.cli.tables.render import add_command, add_group
from rota.client.calls import operation_calls
from rota.model.answers.operations import OperationDocument, OperationPreview
from rota.model.request.operation import OperationState

if TYPE_CHECKING:
    from rota.client._sync.client import Client

_WATCHED_ROUND_SECONDS = 0.5  # so that the bar moves

OperationId = Annotated[int, typer.Argument(metavar="ID", min=1, help="Id of the operation.")]


def add_to(app: typer.Typer) -> None:
    group = add_group(app, "operation", "Follow and stop operations: changes of all tasks that a filter selects.")
    add_command(group, "list", list_operations, "rota operation list", "rota operation list --state running")
    add_command(group, "show", show_operation, "rota operation show 5")
    add_command(group, "stop", stop_operation, "rota operation stop 5")


def list_operations(
    state: Annotated[str | None, typer.Option(help="running, done, stopped or failed.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Length of a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """List operations, newest first: the changes of many tasks that --name and other filters selected."""
    checks.one_of("--state", state, [one.label for one in OperationState])
    show(operation_calls.operations(state=state, limit=limit, cursor=cursor), output_format, operation_tables.page)


def show_operation(operation_id: OperationId, output_format: Output = Format.TABLE) -> None:
    """Show an operation: its filter, and how many tasks it has changed."""
    show(operation_calls.operation(operation_id), output_format, operation_tables.operation)


def stop_operation(operation_id: OperationId, output_format: Output = Format.TABLE) -> None:
    """Stop an operation. What it has changed stays changed.

    Exit 4 if it has ended already.
    """
    show(operation_calls.stop(operation_id), output_format, operation_tables.ended)


# ---- for the commands that take filters ------------------------------------------------------------------------------


def carry_out(verb: str, chosen: Chosen, output_format: Format, changes: Mapping[str, object] | None = None) -> None:
    """Changes all that the filter selects: shows the count and asks, starts an operation, and follows it to its end.

    What is submitted, or dies, after the count is left alone. Exit 4 if some were refused.
    """
    with connect(FOLLOW_RETRY_SECONDS) as client:
        call = operation_calls.preview(verb, changes, **chosen.wanted)
        body = client.exchange(call)
        found = call.read(body)
        if chosen.dry_run:
            output.result(output_format, body, lambda: operation_tables.preview(found))
            return
        if not found.count and output_format is Format.TABLE:
            output.say(f"nothing matches, so there is nothing to {verb}")
            return
        if not _agreed(found, chosen):
            return
        ended = _followed(client, verb, chosen, found, changes)
    output.result(output_format, msgspec.json.encode(ended), lambda: operation_tables.ended(ended))
    if ended.refused or ended.state != OperationState.DONE.label:
        raise typer.Exit(4)


def _agreed(found: OperationPreview, chosen: Chosen) -> bool:
    if chosen.yes or not found.count:
        return True
    said = operation_tables.amount(found.verb, found.count, or_more=found.or_more)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(f"this would {found.verb} {said}; confirm with --yes", param_hint="--yes")
    output.note(operation_tables.preview(found))
    return typer.confirm(f"{found.verb} {said}?", err=True)


def _followed(
    client: Client, verb: str, chosen: Chosen, found: OperationPreview, changes: Mapping[str, Any] | None
) -> OperationDocument:
    everything = all(value is None for value in chosen.wanted.values())
    start = operation_calls.start(
        verb, chosen.wanted, changes=changes, before=found.at, everything=everything, fresh_key=uuid.uuid4().hex
    )
    made = client.perform(start)
    longest = _WATCHED_ROUND_SECONDS if sys.stderr.isatty() else client.longest_wait_seconds
    with _leaving_it_running(made.id), progress_bar(None if made.or_more else made.expected) as seen:
        return client.converse(
            operation_calls.wait(made.id, None, time.monotonic, longest, lambda one: seen(one.matched, verb))
        )


@contextmanager
def _leaving_it_running(number: int) -> Iterator[None]:
    """Ctrl-C ends the wait, not the operation."""
    try:
        yield
    except KeyboardInterrupt:
        output.note(f"operation {number} continues (rota operation show {number}, rota operation stop {number})")
        raise typer.Exit(130) from None
