"""`rota top`: a pool as it is this second, drawn again and again until q or Ctrl-C.

Into a pipe, or with --once, one frame is written and that is all. A server that can't be reached for a while is said in
the last line; the picture stays.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from rota.cli.connection import connect, show
from rota.cli.output import Format, Output
from rota.cli.render import examples
from rota.cli.terminal import escape

REFRESH_SECONDS = 1.0

NAMES = ("top",)

_ENTER = "\x1b[?1049h\x1b[?25l"  # another screen, no cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"


def add_to(app: typer.Typer) -> None:
    app.command("top", epilog=examples("rota top", "rota top --pool render", "rota top --once -o json"))(top)


def top(
    pool: Annotated[str, typer.Option(metavar="NAME", help="Which pool.")] = "default",
    once: Annotated[bool, typer.Option("--once", help="One frame, and no more.")] = False,
    output_format: Output = Format.TABLE,
) -> None:
    """How a pool stands, every second: load, lanes, shares, nodes. Ends with q.

    Operators see everything, others how full it is and their own share.
    """
    from rota.cli import insight_tables
    from rota.client import insight_calls

    call = insight_calls.load(pool)
    if once or output_format is Format.JSON or not sys.stdout.isatty():
        show(call, output_format, insight_tables.frame)
        return
    from rota.client.errors import RotaError

    with connect() as client:
        text, trouble = insight_tables.frame(client.perform(call)), ""  # trouble on the first one ends the command
        with _screen() as quit_within:
            while True:
                _draw(text, trouble)
                if quit_within(REFRESH_SECONDS):
                    return
                try:
                    text, trouble = insight_tables.frame(client.perform(call)), ""
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
    import termios
    import tty

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
