"""What a keeper, or an interpreter that could not become one, writes to standard output and error: lines for the log.

A keeper has nothing to say there unless something is broken, such as a traceback. Units have their own descriptors.
"""

from __future__ import annotations

import asyncio
import os
from typing import BinaryIO

import structlog

log = structlog.get_logger()

_MOST_LINE_BYTES = 64 * 1024


class KeeperOutput:
    """Reads one keeper's output until it ends. `theirs` is for the keeper; the caller closes it after the spawn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        self.theirs: BinaryIO = os.fdopen(theirs, "wb", buffering=0)
        self._loop = loop
        self._ours: int | None = ours
        self._partial = b""
        loop.add_reader(ours, self.read)

    def read(self) -> None:
        """Logs what there is; closes at the end."""
        while self._ours is not None:
            try:
                data = os.read(self._ours, _MOST_LINE_BYTES)
            except BlockingIOError:
                return
            *lines, self._partial = (self._partial + data).split(b"\n")
            if not data or len(self._partial) > _MOST_LINE_BYTES:
                lines, self._partial = [*lines, self._partial], b""
            for line in lines:
                if line.strip():
                    log.error("keeper.wrote", line=line.decode("utf-8", "replace"))
            if not data:
                self._loop.remove_reader(self._ours)
                os.close(self._ours)
                self._ours = None
