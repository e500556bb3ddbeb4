"""The progress of a task as one line on stderr that is redrawn in place. Only for a terminal.

It shares the terminal with the task's output: call `hide` before a write and `show` after it.
"""

from __future__ import annotations

import shutil
import sys

from rota.cli.shell.terminal import escape
from rota.cli.tables.render import blocks

BAR_CELLS = 20


def bar(fraction: float | None, message: str) -> str:
    """`████████░░░░░░░░░░░░ 40% epoch 4/10`."""
    if fraction is None:
        return message
    return f"{blocks(round(fraction * BAR_CELLS), BAR_CELLS)} {fraction:.0%} {message}".rstrip()


class ProgressLine:
    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._text = ""
        self._is_shown = False

    @property
    def is_wanted(self) -> bool:
        return self._on_terminal

    def say(self, fraction: float | None, message: str) -> None:
        self._text = escape(bar(fraction, message).replace("\n", " "))[: shutil.get_terminal_size().columns - 1]
        self.hide()
        self.show()

    def hide(self) -> None:
        if self._is_shown:
            self._write("\r\x1b[K")
            self._is_shown = False

    def show(self) -> None:
        if self._on_terminal and self._text and not self._is_shown:
            self._write(self._text)
            self._is_shown = True

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
