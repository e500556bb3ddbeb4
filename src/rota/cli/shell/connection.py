"""The CLI's connection to the server, and the one way to show an answer: exact, or drawn for people.

HTTP is imported inside the functions: it is a third of the start-up time, and `--help` needs none of it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from rota.cli.shell import output
from rota.cli.shell.output import Format
from rota.client.calls import graph_calls
from rota.client.calls.call import Call
from rota.client.errors import NotFound, RotaError

if TYPE_CHECKING:
    from rota.client._sync.client import Client

Answer = TypeVar("Answer")

READ_RETRY_SECONDS = 0.0  # a person asks again faster than we could
SUBMIT_RETRY_SECONDS = 5.0  # long enough for a server to restart
FOLLOW_RETRY_SECONDS = 30.0  # whoever waits for hours should not lose it to a fail-over

TaskId = Annotated[int, typer.Argument(metavar="ID", min=1, help="Id of the task.")]
TaskIds = Annotated[list[int], typer.Argument(metavar="ID...", min=1, help="Ids of the tasks.")]


def connect(retry_seconds: float = READ_RETRY_SECONDS) -> Client:
    # httpx imports its own command line, with a syntax highlighter, which nobody here needs.
    # None in sys.modules is Python's way to say "not to be imported", and httpx is prepared for that.
    sys.modules.setdefault("httpx._main", cast(ModuleType, None))
    from rota.client._sync.client import Client  # noqa: PLC0415 - HTTP: a third of the start-up time

    return Client(retry_seconds=retry_seconds)


def show(call: Call[Answer], format: Format, draw: Callable[[Answer], str]) -> None:
    """Make the call and show its answer."""
    with connect() as client:
        body = client.exchange(call)
    if format is Format.JSON:
        output.document(body or b"{}")
    else:
        output.say(draw(call.read(body)))


def if_graph(unknown: Exception, then: Callable[[], None]) -> None:
    """No task has the id: it may be a graph's or an array's. If not, the task is what was asked for."""
    try:
        then()
    except NotFound:
        raise unknown from None


def of_one_task(command: Callable[..., None]) -> Callable[..., None]:
    """A command for one task: whoever gives it a graph's or an array's id hears so."""

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


@contextmanager
def leaving_tasks_running(ids: list[int]) -> Iterator[None]:
    """Ctrl-C while waiting ends the waiting, not the tasks; the user is told which go on."""
    try:
        yield
    except KeyboardInterrupt:
        if ids:
            shown = " ".join(map(str, ids[:20])) + (" …" if len(ids) > 20 else "")
            output.note(f"interrupted; left running: {shown} (rota wait, rota logs -f, rota cancel)")
        raise typer.Exit(130) from None
