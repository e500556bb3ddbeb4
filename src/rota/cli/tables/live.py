"""A full-screen view that refreshes until q or Ctrl-C.

While the server can't be reached, the last picture stays and the last line says so.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rota.cli.shell.terminal import escape
from rota.client.errors import RotaError

_ENTER = "\x1b[?1049h\x1b[?25l"  # alternate screen, no cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"


def watch(frame: Callable[[], str], every_seconds: float) -> None:
    """Errors of the first frame are raised; later ones are shown in the last line."""
    text, trouble = frame(), ""
    with _screen() as quit_within:
        while True:
            _draw(text, trouble)
            if quit_within(every_seconds):
                return
            try:
                text, trouble = frame(), ""
            except RotaError as error:
                trouble = str(error)


def _draw(text: str, trouble: str) -> None:
    lines = shutil.get_terminal_size().lines
    shown = text.split("\n")[: max(1, lines - 2)]
    foot = escape(f"not up to date: {trouble}".split("\n")[0]) if trouble else "q ends"
    # Line by line over the old picture: clearing first would flicker. A newline at the end would scroll.
    sys.stdout.write("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in (*shown, "", foot)) + "\x1b[J")
    sys.stdout.flush()


@contextmanager
def _screen() -> Iterator[Quit]:
    """Sets up the terminal, and restores it however the view ends."""
    keys = sys.stdin.fileno() if sys.stdin.isatty() else None
    before = termios.tcgetattr(keys) if keys is not None else None
    sys.stdout.write(_ENTER)
    sys.stdout.flush()
    try:
        if keys is not None:
            tty.setcbreak(keys)
        yield Quit(keys)
    except KeyboardInterrupt:
        pass  # a usual way to end this view
    finally:
        if keys is not None and before is not None:
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


class Quit:
    """Waits for a keypress for a limited time; True if it was q."""

    def __init__(self, keys: int | None) -> None:
        self._keys = keys

    def __call__(self, seconds: float) -> bool:
        if self._keys is None:
            time.sleep(seconds)
            return False
        readable, _, _ = select.select([self._keys], [], [], seconds)
        if not readable:
            return False
        pressed = os.read(self._keys, 64)
        return not pressed or b"q" in pressed.lower()
