"""The command tree of `rota`, and the run of one command line.

A command line imports only the module of its own command, whose `add_to(app)` adds it; so command files import at the
top like all others. `rota --help` imports none of them. Shell completion imports all of them: what is slow to import
(HTTP, a server node, the simulator) is therefore imported inside functions.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated

import typer

from rota import __version__
from rota.cli.shell import coercion, expiry_hint, help_types, output, trouble
from rota.cli.shell.chosen_tenant import choose_tenant

# The module of each command, and the sentence that begins its help. In the order of `rota --help`, by panel.
_PANELS = {
    "Start here": {
        "up": ("operate.up", "Run PostgreSQL, a server node and a worker on this machine."),
        "run": ("commands.submit", "Run a task and show its output as if it ran here."),
        "submit": ("commands.submit", "Submit a task or a manifest and print the id."),
        "list": ("commands.tasks", "List your tasks, newest first."),
        "show": ("commands.tasks", "Show all details of a task, or draw an array or a graph."),
        "logs": ("commands.logs", "Show what a task wrote to standard output and standard error."),
        "why": ("commands.tasks", "Explain why a task waits, and estimate when it starts."),
        "wait": ("commands.wait", "Wait until tasks have ended."),
        "cancel": ("commands.tasks", "Cancel tasks, waiting or running."),
        "retry": ("commands.tasks", "Run ended tasks again as new tasks and print their ids."),
    },
    "Run": {
        "once": ("commands.once", "Run a command unless it has succeeded under this key before."),
        "validate": ("commands.validate", "Check a manifest and list all faults."),
        "graph": ("commands.graphs", "Manage graphs: tasks with dependencies, handled as one."),
    },
    "Inspect": {
        "attempts": ("commands.tasks", "List the attempts of a task: where, when, and how each ended."),
        "result": ("commands.tasks", "Print the JSON result of a task."),
        "events": ("commands.events", "Show events of your tasks and schedules."),
        "webhook": ("commands.webhooks", "Manage webhooks: signed messages about events."),
        "top": ("commands.top", "Show a pool's load, lanes, shares and nodes every second, until you press q."),
    },
    "Control": {
        "hold": ("commands.edits", "Keep waiting tasks from starting until you release them."),
        "release": ("commands.edits", "Release held tasks, with the tolerance they had left."),
        "pause": ("commands.tasks", "Stop a running task, or keep a waiting one from starting, until you resume it."),
        "resume": ("commands.tasks", "Resume a paused task, from its checkpoint if it has one."),
        "edit": ("commands.edits", "Change waiting tasks."),
        "extend": ("commands.tasks", "Extend the time limit of a waiting or running task."),
        "operation": ("commands.operations", "Follow and stop operations: changes of all tasks that a filter selects."),
        "dead": ("commands.dead", "Manage dead letters: tasks that used up their attempts."),
        "key": ("commands.concurrency_keys", "Show concurrency keys, and cool one down."),
    },
    "Files and secrets": {
        "upload": ("commands.artifacts", "Store a file for tasks to use, and print its id."),
        "outputs": ("commands.artifacts", "List or download the files that a task kept (submit --keep)."),
        "artifact": ("commands.artifacts", "Manage uploaded files and the outputs of tasks."),
        "secret": ("commands.secrets", "Manage secrets: values that tasks get and nobody reads back."),
    },
    "Recurring": {
        "schedule": ("commands.schedules", "Manage schedules: recurring tasks and graphs."),
    },
    "Accounts": {
        "login": (
            "commands.accounts.login",
            "Sign in: allow this machine in a browser, and save the token that it gets in the profile.",
        ),
        "logout": ("commands.accounts.login", "Sign out: revoke the profile's token and remove it."),
        "whoami": (
            "commands.accounts.whoami",
            "Show who you are, what you may do, when your token expires, and where it comes from.",
        ),
        "me": ("commands.cluster", "Show your tenant, your plan's limits and how much of them is used."),
        "user": ("commands.accounts.users", "Manage users and their roles (administrators)."),
        "service-account": (
            "commands.accounts.service_accounts",
            "Manage service accounts: what programs are.",
        ),
        "token": ("commands.accounts.tokens", "Manage tokens: what programs send instead of a password."),
        "session": ("commands.accounts.sessions", "Show and end sessions of signed-in users."),
        "sign-in": ("commands.accounts.sign_in_rules", "Show and set who signs in with a second factor."),
        "audit": ("commands.accounts.audit", "Show who did what, check that nobody changed it, and export it."),
    },
    "Administration": {
        "tenant": ("commands.tenants", "Manage tenants (administrators)."),
        "worker-key": (
            "commands.accounts.worker_keys",
            "Manage worker keys: what new nodes join a pool with (operators).",
        ),
        "plan": ("commands.plans", "Manage plans (administrators)."),
        "tier": ("commands.tiers", "Manage tiers: named amounts of resources."),
        "category": ("commands.tiers", "Manage categories: named defaults for tolerance, lane, cap and isolation."),
        "pool": ("commands.pools", "Manage pools of nodes."),
        "lane": ("commands.pools", "Manage lanes: the order in which tasks are served."),
        "node": ("commands.cluster", "Manage nodes: machines that run tasks."),
        "retention": ("commands.retention", "Show and change how long data is kept."),
    },
    "Server": {
        "serve": ("operate.serve", "Run one server node."),
        "worker": ("operate.worker", "Run the agent that makes this machine a node."),
        "server": ("commands.cluster", "Show server nodes."),
        "doctor": ("operate.doctor", "Check what this machine can do for Rota, and how to get what is missing."),
        "tls": ("operate.tls", "Make and renew certificates for server nodes."),
        "db": ("operate.db", "Show and upgrade the database schema."),
        "simulate": ("simulate.commands", "Run the scheduler in virtual time: traces, load, faults."),
    },
}
_COMMANDS = {name: command for commands in _PANELS.values() for name, command in commands.items()}


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code. Every error becomes one line on stderr and a code."""
    try:
        arguments = choose_tenant(arguments)
        first = None if "_ROTA_COMPLETE" in os.environ else next(iter(arguments), "--help")
        code = build(first)(arguments, prog_name="rota", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        output.forget_reader()
        return 0
    except Exception as error:
        if "ROTA_TRACEBACK" in os.environ:
            raise
        return trouble.report(error, arguments)
    finally:
        expiry_hint.say_if_due()


def build(command: str | None = None) -> typer.Typer:
    """The command tree with this command; with all commands for None; with their names for any other word."""
    coercion.lighten()
    help_types.replace()
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
    if command is None or command in _COMMANDS:
        modules = [module for module, _ in _COMMANDS.values()] if command is None else [_COMMANDS[command][0]]
        for module in dict.fromkeys(modules):
            importlib.import_module(f"rota.cli.{module}").add_to(app)
    else:  # for the help, and for the message about an unknown command
        for panel, commands in _PANELS.items():
            for name, (_, sentence) in commands.items():
                app.command(name, help=sentence, rich_help_panel=panel)(_unused)
    return app


def _unused() -> None:
    raise AssertionError("stands for a command in the help")


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
    tenant: Annotated[  # taken before the tree is built, see `choose_tenant`
        str | None, typer.Option("--tenant", metavar="NAME", help="Tenant to talk to, if you have a role at several.")
    ] = None,
    ca: Annotated[  # likewise
        str | None,
        typer.Option("--ca", metavar="FILE", help="Trust the authorities in this file only. Else ROTA_CA."),
    ] = None,
    version: Annotated[bool, typer.Option("-V", "--version", help="Show the version.")] = False,
) -> None:
    if version:
        sys.stdout.write(f"rota {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
