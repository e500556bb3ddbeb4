"""A picture that is drawn again and again on the whole terminal, until q or Ctrl-C.

A server that can't be reached for a while is said in the last line; the picture stays.
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

_ENTER = "\x1b[?1049h\x1b[?25l"  # another screen, no cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"


def watch(frame: Callable[[], str], every_seconds: float) -> None:
    """Trouble with the first frame is the caller's."""
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
    # Over what stands there, line by line: clearing first would flicker. No newline at the end: the screen would roll.
    sys.stdout.write("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in (*shown, "", foot)) + "\x1b[J")
    sys.stdout.flush()


@contextmanager
def _screen() -> Iterator[Quit]:
    """The terminal as this view wants it, and as it was afterwards, however it ends."""
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
    """Waits for a key no longer than asked, and says whether it was the one that ends the view."""

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
