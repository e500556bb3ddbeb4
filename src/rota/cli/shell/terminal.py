"""Makes the output of tasks harmless for a terminal: escape codes and control characters are shown, not executed.

Output may come from anyone's program; it could retitle the window, hide lines or type for the user.
If stdout is not a terminal, the bytes pass unchanged, because the reader is a program.
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

# Controls but newline and tab, C1 controls, line separators, and the marks that reverse text direction.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def escape(text: str) -> str:
    """The text with every unsafe character written out: an escape character becomes `\\x1b`."""
    return _UNSAFE.sub(lambda match: _written_out(match[0]), text)


class Neutraliser:
    """Escapes a stream that arrives in pieces: characters and line ends may be split between them."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
        self._held = ""

    def take(self, data: bytes, *, last: bool = False) -> str:
        text = self._held + self._decoder.decode(data, last)
        # A carriage return is harmless only before a newline, which may be in the next piece.
        self._held = "\r" if text.endswith("\r") and not last else ""
        text = text.removesuffix("\r") if self._held else text
        return escape(text.replace("\r\n", "\n"))


class TaskOutput:
    """Where one of a task's streams goes: as it is, or neutralised."""

    def __init__(self, target: BinaryIO, *, raw: bool) -> None:
        self._target = target
        self._neutraliser = None if raw else Neutraliser()

    def write(self, data: bytes) -> None:
        shown = data if self._neutraliser is None else self._neutraliser.take(data).encode()
        self._target.write(shown)
        self._target.flush()

    def finish(self) -> None:
        if self._neutraliser is not None:
            self._target.write(self._neutraliser.take(b"", last=True).encode())
            self._target.flush()


def _written_out(character: str) -> str:
    code = ord(character)
    return "\\r" if character == "\r" else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
