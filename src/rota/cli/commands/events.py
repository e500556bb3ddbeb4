"""`rota events`: past or new events of tasks and schedules."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, connect
from rota.cli.shell.output import Format, Output
from rota.cli.shell.shared_options import takes
from rota.cli.shell.terminal import escape
from rota.cli.tables.render import add_command
from rota.cli.tables.task_tables import changes_text
from rota.client.transport.event_reader import EventReader
from rota.model.answers.events import EventDocument
from rota.model.event import EventType


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "events",
        events,
        "rota events -f",
        "rota events -f --type failed,late --tag team=ml",
        "rota events --since 1h --task 7",
    )


def event_source(
    task: Annotated[int | None, typer.Option(min=1, metavar="ID", help="Only of this task.")] = None,
    schedule: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this schedule and its tasks.")] = None,
    name: Annotated[str | None, typer.Option(help="Only of tasks with this name.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="NAME=VALUE", help="Only of tasks with this tag.")] = None,
) -> dict[str, Any]:
    return {"task": task, "schedule": schedule, "name": name, "tag": checks.pair("--tag", tag) if tag else None}


@takes("source", event_source)
def events(
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep showing new events.")] = False,
    types: Annotated[
        str | None, typer.Option("--type", metavar="TYPE,...", help=f"Only these: {', '.join(EventType)}.")
    ] = None,
    source: dict[str, Any],
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Since, e.g. 10m or 2026-03-01T08:00Z. [default: 1h; now with -f]"),
    ] = None,
    after: Annotated[str | None, typer.Option(metavar="EVENT", help="Only events after the one with this id.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Show events of your tasks and schedules."""
    chosen = event_types("--type", types)
    since = checks.since("--since", since)
    if since is None and after is None and not follow:
        since = "1h"
    reader = EventReader(
        types=chosen,
        **source,
        after=after,
        since=since,
        follow=follow,
    )
    with connect(FOLLOW_RETRY_SECONDS if follow else 0.0) as client:
        for event in client.listen(reader):
            output.result(output_format, reader.raw, functools.partial(line, event))


def event_types(option: str, text: str | None) -> list[str] | None:
    if text is None:
        return None
    chosen = text.split(",")
    for one in chosen:
        checks.one_of(option, one, list(EventType))
    return chosen


def line(event: EventDocument) -> str:
    about = f"task {event.task}" if event.task is not None else f"schedule {escape(event.schedule or '')}"
    words = [f"{event.at:%Y-%m-%d %H:%M:%S}", f"{event.type:<16}", about]
    if event.name:
        words.append(escape(event.name))
    if event.node:
        words.append(f"on {escape(event.node)}")
    if event.stage is not None:
        words.append(f"{event.stage.number}/{event.stage.count} {escape(event.stage.name)}")
    if event.limit:
        words.append(f"over its {event.limit}:")
    if event.changes:
        words.append(escape(changes_text(event.changes)))
    if event.reason:
        words.append(escape(event.reason))
    elif event.exit_code:
        words.append(f"exit code {event.exit_code}")
    if event.user and not event.reason:  # a reason names them
        words.append(f"by {escape(event.user)}")
    return "  ".join(words[:3]) + ("  " + " ".join(words[3:]) if words[3:] else "")
