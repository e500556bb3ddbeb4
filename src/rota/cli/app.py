"""The command tree of `rota`, and the run of one command line.

`_PARTS` names, for each module, the commands that its function `add_to(app)` adds. A command line imports only the
module of its own command, so command files import at the top like all others. `rota --help` and shell completion
import all of them: what is slow to import (HTTP, a server node, the simulator) is therefore imported inside functions.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated

import typer

from rota import __version__
from rota.cli.shell import coercion, output, trouble

# In the order of the help.
_PARTS = {
    "commands.submit": ("run", "submit"),
    "commands.validate": ("validate",),
    "commands.tasks": ("list", "show", "why", "attempts", "result", "cancel", "pause", "resume", "retry", "extend"),
    "commands.edits": ("edit", "hold", "release"),
    "commands.logs": ("logs",),
    "commands.events": ("events",),
    "commands.webhooks": ("webhook",),
    "commands.wait": ("wait",),
    "commands.once": ("once",),
    "commands.dead": ("dead",),
    "commands.graphs": ("graph",),
    "commands.schedules": ("schedule",),
    "commands.artifacts": ("upload", "artifact", "outputs"),
    "commands.concurrency_keys": ("key",),
    "commands.cluster": ("me", "node", "server"),
    "commands.top": ("top",),
    "commands.tenants": ("tenant",),
    "commands.tokens": ("token",),
    "commands.plans": ("plan",),
    "commands.tiers": ("tier", "category"),
    "commands.pools": ("pool", "lane"),
    "commands.retention": ("retention",),
    "commands.secrets": ("secret",),
    "simulate.commands": ("simulate",),
    "operate.up": ("up",),
    "operate.serve": ("serve",),
    "operate.worker": ("worker",),
    "operate.doctor": ("doctor",),
    "operate.db": ("db",),
}


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code. Every error becomes one line on stderr and a code."""
    try:
        code = build(arguments[0] if arguments else None)(arguments, prog_name="rota", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        output.forget_reader()
        return 0
    except Exception as error:
        if "ROTA_TRACEBACK" in os.environ:
            raise
        return trouble.report(error, arguments)


def build(command: str | None = None) -> typer.Typer:
    """The command tree: with the part that has this command, or with all parts if no command is given."""
    coercion.lighten()
    app = typer.Typer(
        name="rota",
        help="Rota runs your tasks: submit one, follow it, and get its result.",
        epilog=_EPILOG,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(_root)
    is_known = command is None or command.startswith("-") or any(command in names for names in _PARTS.values())
    for module, names in _PARTS.items():
        if not is_known:  # the names are enough to say which command was meant
            for name in names:
                app.command(name)(_unused)
        elif command in names or command is None or command.startswith("-"):
            importlib.import_module(f"rota.cli.{module}").add_to(app)
    return app


def _unused() -> None:
    raise AssertionError("stands for a command in the message about an unknown one")


_EPILOG = "\n\n".join(
    (
        "First steps:",
        "  rota up                          start everything on this machine",
        "  rota run -- echo hello           run a command and see its output",
        "  rota submit --cap 1h -- ./job    submit a task; prints its id",
        "  rota list                        list your tasks and their states",
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
