"""Writing to stdout: text for people, exact documents for machines, and a quiet end when the reader has gone.

Every command's result passes through here, so that `rota list | head` never ends in an error and a terminal
never obeys escape codes that were hidden in a name.
"""

from __future__ import annotations

import enum
import os
import sys
from typing import Annotated

import typer

from rota.cli.shell.terminal import escape


class Format(enum.StrEnum):
    TABLE = "table"
    JSON = "json"


Output = Annotated[Format, typer.Option("-o", "--output", help="table, or json for the exact API document.")]
Raw = Annotated[bool, typer.Option("--raw", help="Pass escape codes through to the terminal.")]


def say(text: str) -> None:
    """Text that was made for the terminal by `render.py`, or plain words of ours."""
    _write((text + "\n").encode(errors="backslashreplace"))


def document(body: bytes) -> None:
    """A JSON document as the server wrote it. JSON escapes most controls itself; a terminal gets the rest
    escaped.
    """
    if sys.stdout.isatty():
        body = escape(body.decode(errors="backslashreplace")).encode()
    _write(body.rstrip(b"\n") + b"\n")


def note(text: str) -> None:
    """A remark on stderr: never mixed with a result."""
    sys.stderr.write(f"rota: {escape(text)}\n")
    sys.stderr.flush()


def forget_reader() -> None:
    """The reader has closed its end. Point stdout at nothing, or Python complains once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(data: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        forget_reader()
        raise typer.Exit(0) from None
