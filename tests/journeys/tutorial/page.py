"""Reads a page of documentation as a session: the files it shows, what it types, and what it shows as the answer.

A block that begins with `# NAME.py` (or .yaml, .sh) is a file. Lines that begin with `$ ` are typed into a shell, lines that
begin with `>>> ` or `... ` into Python; the lines below each are its answer. In an answer, `…` stands for anything, a
line of `…` for any lines. Numbers, times and spans may differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_FILE = re.compile(r"# ([\w-]+\.(?:py|yaml|sh))$")
_TIME = re.compile(
    r"(?:\w{3} )?\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d| [A-Z]{3,4}\b)?"
)
_AMOUNT = re.compile(r"\d+(?:[.,]\d+)*(?:ms|[smhdKMGT](?:\d\d[smh])?)?(?![a-zA-Z])")


@dataclass(slots=True)
class Typed:
    """One line for the shell, or a statement for Python, and the answer below it."""

    text: str
    answer: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Block:
    """A file (`name`), a shell session or a Python session."""

    kind: str
    name: str = ""
    content: str = ""
    typed: list[Typed] = field(default_factory=list)


def blocks(page: Path) -> list[Block]:
    return [found for text in _indented(page.read_text()) if (found := _block(text)) is not None]


def _indented(text: str) -> list[list[str]]:
    """Blocks of lines with four spaces before them; blank lines inside a block stay."""
    found: list[list[str]] = [[]]
    for line in [*text.splitlines(), "end"]:
        if line.startswith("    "):
            found[-1].append(line[4:])
        elif not line and found[-1]:
            found[-1].append("")
        elif found[-1]:
            found.append([])
    return [lines for lines in found if lines]


def _block(lines: list[str]) -> Block | None:
    file = _FILE.match(lines[0])
    if file:
        assert not any(line.startswith("$ ") for line in lines), f"a sentence must end the file {file[1]}"
        return Block("file", file[1], "\n".join(lines).rstrip() + "\n")
    if lines[0].startswith("$ "):
        return _session("shell", lines, "$ ", "> ")
    if lines[0].startswith(">>> "):
        return _session("python", lines, ">>> ", "... ")
    return None


def _session(kind: str, lines: list[str], prompt: str, more: str) -> Block:
    block = Block(kind)
    for line in lines:
        if line.startswith(prompt):
            block.typed.append(Typed(line.removeprefix(prompt)))
        elif (line.startswith(more) or line == more.strip()) and not block.typed[-1].answer:
            block.typed[-1].text += "\n" + line[len(more) :]
        elif line:
            block.typed[-1].answer.append(line)
    return block


def differs(expected: list[str], seen: str) -> str | None:
    """None if the answer is as expected; else both, as they were compared."""
    wanted = [_plain(line) for line in expected]
    lines = [plain for line in seen.splitlines() if (plain := _plain(line))]
    pattern = "".join(r"(?:.*\n)*" if line == "…" else _pattern(line) + r"\n" for line in wanted)
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)):
        return None
    return "\n".join(["expected:", *wanted, "seen:", *lines])


def _pattern(line: str) -> str:
    return re.escape(line).replace("…", ".*")


def _plain(line: str) -> str:
    """One space between words, and a sign for what differs from run to run."""
    return " ".join(_AMOUNT.sub("#", _TIME.sub("@", line)).split())
