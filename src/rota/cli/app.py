"""The command tree of `rota`: every group adds its own commands, in the order in which help shows them.

`rota.cli.operate.commands` adds the commands that run Rota itself. Nothing is decided here and nothing connects.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rota import __version__
from rota.cli.commands import (
    artifacts,
    cluster,
    concurrency_keys,
    dead,
    edits,
    events,
    graphs,
    logs,
    once,
    plans,
    pools,
    retention,
    schedules,
    secrets,
    submit,
    tasks,
    tenants,
    tiers,
    tokens,
    top,
    validate,
    wait,
    webhooks,
)
from rota.cli.operate import commands
from rota.cli.shell import coercion
from rota.cli.simulate import traces

_PARTS = (
    submit,
    validate,
    tasks,
    edits,
    logs,
    events,
    webhooks,
    wait,
    once,
    dead,
    graphs,
    schedules,
    artifacts,
    concurrency_keys,
    cluster,
    top,
    tenants,
    tokens,
    plans,
    tiers,
    pools,
    retention,
    secrets,
    traces,
    commands,
)


def build(word: str | None = None) -> typer.Typer:
    """The command tree; given the first word of a command line, only the part with that command.

    Typer inspects every function of a tree, so the parts that are not asked for would only cost time.
    """
    coercion.lighten()
    parts = [part for part in _PARTS if word in getattr(part, "NAMES", ())] or _PARTS
    app = typer.Typer(
        name="rota",
        help="Rota runs your tasks: hand one over, follow it, and hear how it ended.",
        epilog=_EPILOG,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_root)
    for part in parts:
        part.add_to(app)
    return app


_EPILOG = "\n\n".join(
    (
        "First steps:",
        "  rota up                          start everything on this machine",
        "  rota run -- echo hello           run a command and see its output",
        "  rota submit --cap 1h -- ./job    hand one over; prints its id",
        "  rota list                        what is waiting, running, done",
        "Exit codes: 0 done, 1 task failed, 2 usage, 3 not found, 4 refused, 5 unreachable, 6 timed out, 75 expired.",
    )
)


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("-V", "--version", help="Show the version.")] = False,
) -> None:
    if version:
        sys.stdout.write(f"rota {__version__}\n")
    elif context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
