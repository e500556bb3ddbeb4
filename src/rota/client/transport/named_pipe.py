"""Files that would be waited for without end: a named pipe may have nobody who writes to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_HANDED_OVER = ("/dev/fd/", "/proc/", "/dev/stdin")  # by a shell, as in <(command): somebody writes to these


def is_named_pipe(path: str | Path) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode) and not str(path).startswith(_HANDED_OVER)
    except (OSError, ValueError):
        return False
