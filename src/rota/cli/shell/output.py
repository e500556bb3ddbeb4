"""Writes to stdout: text, or JSON documents. Ends silently when the reader has closed the pipe.

Every command's result passes through here, so that `rota list | head` never ends in an error and a terminal
never obeys escape codes that were hidden in a name.
"""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from rota.cli.shell.terminal import escape


class Format(enum.StrEnum):
    TABLE = "table"
    JSON = "json"


Output = Annotated[Format, typer.Option("-o", "--output", help="table, or json for the exact API document.")]
Raw = Annotated[bool, typer.Option("--raw", help="Pass escape codes through to the terminal.")]


def say(text: str) -> None:
    """Print text from `tables/`, or a message without foreign content."""
    _write((text + "\n").encode(errors="backslashreplace"))


def result(format: Format, body: bytes, text: Callable[[], str]) -> None:
    """Print a command's result: the JSON document, or the text."""
    if format is Format.JSON:
        document(body)
    else:
        say(text())


def document(body: bytes) -> None:
    """Print a JSON document as the server wrote it. For a terminal, the controls that JSON leaves are escaped."""
    if sys.stdout.isatty():
        body = escape(body.decode(errors="backslashreplace")).encode()
    _write(body.rstrip(b"\n") + b"\n")


def note(text: str) -> None:
    """Print a note on stderr, so that it never mixes with a result."""
    sys.stderr.write(f"rota: {escape(text)}\n")
    sys.stderr.flush()


def forget_reader() -> None:
    """The reader has closed the pipe. Point stdout at /dev/null, or Python reports the error again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(data: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        forget_reader()
        raise typer.Exit(0) from None
