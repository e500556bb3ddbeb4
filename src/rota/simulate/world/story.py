"""The log of a seed: a fingerprint always, and readable lines when the seed is replayed."""

from __future__ import annotations

import zlib
from collections.abc import Callable


class Story:
    def __init__(self, now: Callable[[], float], *, keep: bool) -> None:
        self._now = now
        self._keep = keep
        self.lines: list[str] = []
        self.fingerprint = 0

    def tell(self, actor: str, text: str) -> None:
        line = f"{self._now():10.4f}  {actor:<12}{text}"
        self.fingerprint = zlib.crc32(line.encode(), self.fingerprint)
        if self._keep:
            self.lines.append(line)
