"""An unknown option or command gets a suggestion by meaning first, by spelling else; help shows metavars and groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from rota.cli import app
from rota.cli.shell import suggestions
from tests.cli.conftest import Rota


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("submit --key x -- a", "no such option: --key. Did you mean --concurrency-key or --idempotency-key?"),
        ("submit --timeout 3m -- a", "no such option: --timeout. Did you mean --cap?"),
        ("submit --queue big -- a", "no such option: --queue. Did you mean --lane or --pool?"),
        ("run --retries 3 -- a", "no such option: --retries. Did you mean --attempts?"),
        ("run --depends-on 7 -- a", "no such option: --depends-on. Did you mean --after?"),
        ("list --stat ready", "no such option: --stat. Did you mean --state or --status?"),
        ("list --frobnicate", "no such option: --frobnicate (see rota list --help)"),
        ("schedule add x -n 3", "no such option: -n (see rota schedule add --help)"),
        ("ps", "no such command 'ps'. Did you mean 'list'?"),
        ("kill 7", "no such command 'kill'. Did you mean 'cancel'?"),
        ("status 7", "no such command 'status'. Did you mean 'show', 'list' or 'top'?"),
        ("node ls", "no such command 'ls'. Did you mean 'list'?"),
        ("schedule delete x", "no such command 'delete'. Did you mean 'remove'?"),
        ("frobnicate", "no such command 'frobnicate' (see rota --help)"),
    ],
)
def test_an_unknown_word_gets_the_name_that_does_the_same_here(rota: Rota, arguments: str, message: str) -> None:
    ran = rota(*arguments.split())
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for one in getattr(command, "commands", {}).values():
        yield from _commands(one)


def test_every_word_of_the_tables_leads_to_something_that_exists() -> None:
    tree: Any = typer.main.get_command(app.build())
    options = {name for command in _commands(tree) for parameter in command.params for name in parameter.opts}
    commands = {name for command in _commands(tree) for name in getattr(command, "commands", {})}
    assert {name for names in suggestions._OPTIONS.values() for name in names} <= options
    assert {name for names in suggestions._COMMANDS.values() for name in names} <= commands


def test_a_command_that_exists_at_the_root_is_not_in_the_table_of_foreign_words() -> None:
    assert {*app._COMMANDS}.isdisjoint(suggestions._COMMANDS)


def test_the_help_begins_with_the_ten_commands_that_matter_first(rota: Rota) -> None:
    out = rota("--help").out
    panels = [line.split("─ ")[1].split(" ─")[0] for line in out.splitlines() if line.startswith("╭─ ")]
    assert panels == ["Options", *app._PANELS]
    assert [*app._PANELS["Start here"]] == [
        "up",
        "run",
        "submit",
        "list",
        "show",
        "logs",
        "why",
        "wait",
        "cancel",
        "retry",
    ]


def test_the_help_of_an_option_shows_what_to_type_instead_of_a_type_of_python(rota: Rota) -> None:
    out = rota("submit", "--help").out
    lines = {line.split()[1]: line for line in out.splitlines() if line.startswith("│ --")}
    assert "NAME=VALUE" in lines["--env"]
    assert "TEXT" in lines["--name"]
    assert "NUMBER" in lines["--priority"]
    assert not any(word in out for word in ("<bool>", "<str>", "<int", "<list"))
