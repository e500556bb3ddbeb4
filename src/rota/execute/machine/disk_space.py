"""Whether this node's disk has space for more work: below its reserve the node takes none.

The reserve lets running tasks finish and results be kept. A task that fails on a full disk is not blamed: `is_full` is
asked when it ends, before its folder is removed.
"""

from __future__ import annotations

import os

from rota.model.units import bytes_text

DEFAULT_RESERVE_BYTES = 64 * 1024 * 1024
_NOTHING_BYTES = 1024 * 1024
_LEAST_ENTRIES = 64  # files that can still be made


class DiskSpace:
    def __init__(self, folder: str, reserve_bytes: int = DEFAULT_RESERVE_BYTES) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._seen = (0, 0)  # free bytes and files at the last check

    def is_short(self, *, already: bool) -> bool:
        """Below the reserve; once it is, a quarter more must be free before it is not."""
        needed = self._reserve_bytes + self._reserve_bytes // 4 if already else self._reserve_bytes
        free, entries = self._left()
        return free < needed or entries < _LEAST_ENTRIES

    def is_full(self) -> bool:
        free, entries = self._left()
        return free < min(_NOTHING_BYTES, self._reserve_bytes) or entries == 0

    def figures(self) -> dict[str, str | int]:
        """For people: what was free at the last check, and the reserve."""
        free, entries = self._seen
        figures: dict[str, str | int] = {
            "folder": self._folder,
            "free": f"{bytes_text(free)}B",
            "reserve": f"{bytes_text(self._reserve_bytes)}B",
        }
        return figures | {"files_left": entries} if entries < _LEAST_ENTRIES else figures

    def _left(self) -> tuple[int, int]:
        facts = os.statvfs(self._folder)
        # Some file systems don't count files; they report 0 of 0.
        self._seen = facts.f_bavail * facts.f_frsize, facts.f_favail if facts.f_files else _LEAST_ENTRIES
        return self._seen
