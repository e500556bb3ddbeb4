"""The CLI's connection to the server, and the one way to show an answer: as JSON, or as a table.

HTTP is imported when a command connects: it is a third of the start-up time, and `--help` does not need it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from rota.cli.shell import output
from rota.cli.shell.output import Format
from rota.client.calls import graph_calls
from rota.client.calls.call import Call
from rota.client.errors import NotFound, Refused, RotaError
from rota.client.transport.profile import name_program
from rota.client.transport.starting import await_start, profile_path

if TYPE_CHECKING:
    from rota.client._sync.client import Client

Answer = TypeVar("Answer")

READ_RETRY_SECONDS = 0.0  # a person repeats the command faster
SUBMIT_RETRY_SECONDS = 5.0  # long enough for a server to restart
FOLLOW_RETRY_SECONDS = 30.0  # a wait of hours survives a fail-over

TaskId = Annotated[int, typer.Argument(metavar="ID", min=1, help="Id of the task.")]
TaskIds = Annotated[list[int], typer.Argument(metavar="ID...", min=1, help="Ids of the tasks.")]

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, shown with the task.")]


def connect(retry_seconds: float = READ_RETRY_SECONDS) -> Client:
    # httpx imports its own command line with a syntax highlighter. None in sys.modules prevents that, and httpx
    # allows for it.
    sys.modules.setdefault("httpx._main", cast(ModuleType, None))
    from rota.client._sync.client import Client  # noqa: PLC0415 - HTTP: a third of the start-up time

    name_program("rota-cli")
    await_own_start()
    return Client(retry_seconds=retry_seconds)


def await_own_start() -> None:
    """Waits for a `rota up` that is about to write the profile, unless the environment names the server."""
    if not os.environ.get("ROTA_SERVER"):
        await_start(profile_path(), output.note)


def show(call: Call[Answer], format: Format, draw: Callable[[Answer], str]) -> None:
    """Make the call and show its answer."""
    with connect() as client:
        body = client.exchange(call)
    output.result(format, body or b"{}", lambda: draw(call.read(body)))


def if_graph(unknown: Exception, then: Callable[[], None]) -> None:
    """Try the id as that of a graph or an array. If there is none, raise the error about the task."""
    try:
        then()
    except NotFound:
        raise unknown from None


def of_one_task(command: Callable[..., None]) -> Callable[..., None]:
    """A command for one task. For the id of a graph or an array, the error says so."""

    @functools.wraps(command)
    def hinting(**values: Any) -> None:
        try:
            command(**values)
        except NotFound as unknown:
            number = values["task_id"]
            try:
                with connect() as client:
                    graph = client.perform(graph_calls.graph(number))
            except RotaError:
                raise unknown from None
            what = "an array" if graph.array else "a graph"
            detail = f"{number} is {what}, not a task; rota graph show {number} names its tasks"
            raise NotFound(detail, status=404, slug=unknown.slug) from None

    return hinting


def each(ids: Sequence[int], change: Callable[[int], None]) -> None:
    """Changes one after the other. Of several, a refusal is noted and the others go on; exit 4 at the end."""
    if len(ids) == 1:
        change(ids[0])
        return
    refused = False
    for number in ids:
        try:
            change(number)
        except Refused as refusal:
            output.note(f"{number}: {refusal}")
            refused = True
    if refused:
        raise typer.Exit(4)


@contextmanager
def leaving_tasks_running(ids: list[int]) -> Iterator[None]:
    """Ctrl-C ends the wait, not the tasks; a note names the tasks that still run."""
    try:
        yield
    except KeyboardInterrupt:
        if ids:
            shown = " ".join(map(str, ids[:20])) + (" …" if len(ids) > 20 else "")
            output.note(f"you ended the wait; these tasks continue: {shown} (rota wait, rota logs -f, rota cancel)")
        raise typer.Exit(130) from None
