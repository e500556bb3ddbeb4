"""A wall clock that a test moves, for Python processes and every Python process they start; the monotonic one is right.

libfaketime reads the shift from a file at every look at the clock. It gets into a process by `LD_PRELOAD`, which a worker
does not pass on; but it passes on `PYTHONPATH`, where a `sitecustomize` starts each process once more with the library.
"""

from __future__ import annotations

import os
from pathlib import Path

import libfaketime

LIBRARY = Path(libfaketime.__file__).parent / "vendor/libfaketime/src/libfaketime.so.1"
_START_AGAIN = """
import os, sys

wanted = {wanted!r}
if os.environ.get("LD_PRELOAD") != wanted["LD_PRELOAD"]:
    os.execve(sys.executable, sys.orig_argv, os.environ | wanted)
"""


class WrongClock:
    def __init__(self, folder: Path) -> None:
        assert LIBRARY.exists()
        folder.mkdir()
        self.folder = folder  # goes first in PYTHONPATH
        self._shift = folder / "shift"
        self.move(seconds=0)
        wanted = {
            "LD_PRELOAD": os.fspath(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": os.fspath(self._shift),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        (folder / "sitecustomize.py").write_text(_START_AGAIN.format(wanted=wanted))

    def move(self, *, seconds: int) -> None:
        """Shifts the clock from the true time, at once: the file is replaced, so that nobody reads half of it."""
        news = self.folder / "shift.new"
        news.write_text(f"{seconds:+d}\n")
        news.rename(self._shift)

    def rules(self, pid: int) -> bool:
        """Whether the process has the library, and so this clock."""
        return os.fspath(LIBRARY) in Path(f"/proc/{pid}/maps").read_text()
