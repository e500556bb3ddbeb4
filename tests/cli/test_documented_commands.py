"""Commands that the documentation and the help show: each exists, with every option it is shown with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from rota.cli.app import build

TREE = typer.main.get_command(build())
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.y*ml"))]
PLANS = {"free", "standard", "business", "unlimited"}  # that a fresh database has
OF_OTHERS = {
    "--help",
    "--privileged",
    "--cap-add",
    "--env-file",
    "--security-opt",
    "--cgroupns",
    "--restart",
    "--ulimit",
}  # of every program, or of a container's engine
_SPANS = re.compile(r"`(rota [^`]+)`|^ +(?:\$ |[A-Z_]+=\S+ |#? ?)?(rota .+)$|\$\((rota [^)]+)\)", re.MULTILINE)


def commands(page: str) -> Iterator[str]:
    joined = re.sub(r"\\\n\s*", " ", page)
    for spans in _SPANS.findall(joined):
        yield next(" ".join(span.split()) for span in spans if span)


def words_of(line: str) -> list[str]:
    """What comes before `--`, a comment, or another command. Prose that only looks like a command has no words."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    ends = [place for place, word in enumerate(words) if word in ("--", "&&", "|", ";", ">") or word.startswith("#")]
    return words[: min(ends, default=len(words))]


def wrong_in(line: str) -> list[str]:
    found: Any = TREE
    words = words_of(line)[1:]
    path = ["rota"]
    while words and hasattr(found, "commands"):
        name = words.pop(0)
        if name.startswith("-"):
            return []  # rota --version, rota --help
        below = [found.commands.get(one) for one in name.split("|")]
        if None in below:
            return [f"there is no {' '.join([*path, name])}"] if re.fullmatch(r"[a-z-]+", name) else []
        path.append(name)
        found = below[0]
    options = {option for one in found.params for option in (*one.opts, *one.secondary_opts)}
    given = {word.partition("=")[0].rstrip(",.;:)") for word in words if re.match(r"--[a-z]", word)}
    wrong = [f"{' '.join(path)} has no {name}" for name in sorted(given - options - {"--help"})]
    if "--plan" in words and path[1] == "tenant":
        plan = words[words.index("--plan") + 1]
        wrong += [] if plan in PLANS or not plan.islower() else [f"there is no plan {plan}"]
    return wrong


def epilogs(command: Any) -> Iterator[str]:
    yield command.epilog or ""
    for below in getattr(command, "commands", {}).values():
        yield from epilogs(below)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_a_page_shows_exists_with_its_options(page: Path) -> None:
    assert [f"{line}: {wrong}" for line in commands(page.read_text()) for wrong in wrong_in(line)] == []


def test_every_example_of_the_help_exists_with_its_options() -> None:
    shown = [line for text in epilogs(TREE) for line in re.findall(r"rota .+", text)]
    assert len(shown) > 50
    assert [f"{line}: {wrong}" for line in shown for wrong in wrong_in(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_a_page_names_alone_is_one_of_some_command(page: Path) -> None:
    named = re.findall(r"`(--[a-z][a-z-]*)[^`]*`", page.read_text())
    assert sorted(set(named) - options_below(TREE) - OF_OTHERS) == []


def options_below(command: Any) -> set[str]:
    own = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    return own.union(*map(options_below, getattr(command, "commands", {}).values()))
