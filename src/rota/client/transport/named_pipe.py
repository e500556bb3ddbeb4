"""Finds named pipes, which must not be opened: without a writer, reading one blocks for ever."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_FROM_A_SHELL = ("/dev/fd/", "/proc/", "/dev/stdin")  # as in <(command): these have a writer


def is_named_pipe(path: str | Path) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode) and not str(path).startswith(_FROM_A_SHELL)
    except (OSError, ValueError):
        return False
