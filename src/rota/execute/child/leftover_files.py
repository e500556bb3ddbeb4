"""Removes files that a call leaves in the folders of its warm child before the next call; else the child is replaced.

The folders' times show whether anything was left, one system call each; only then are they listed. Files from before
the first call, or made by the import of a module, stay: they belong to the program, not to a call.
"""

from __future__ import annotations

import contextlib
import os
import time

_MOST_ENTRIES = 1_000  # to be removed here; with more, a new child is quicker
_TICK_NS = 20_000_000  # a folder's time may stay the same for so long while files are added
_LOW_BYTES = 64 * 1024 * 1024


class LeftoverFiles:
    def __init__(self, folders: list[str]) -> None:
        self._folders = [(folder, os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) for folder in folders]
        self._seen = [0] * len(folders)
        self._changed = [(0, 0)] * len(folders)  # time of each folder, and since when it is known
        self._kept: set[str] = set()
        self.keep()

    def keep(self) -> None:
        """Everything there is now may stay."""
        self._kept.update(path for folder, _ in self._folders for path in _listed(folder))

    def is_left(self) -> bool:
        left = False
        for folder_number, (folder, descriptor) in enumerate(self._folders):
            changed, now = os.fstat(descriptor).st_mtime_ns, time.monotonic_ns()
            if changed == self._seen[folder_number]:
                continue
            # A folder may change twice within one tick of the file system's clock and show the same time: nothing
            # counts as known before it has stayed the same for longer.
            known, since = self._changed[folder_number]
            if known != changed:
                self._changed[folder_number] = changed, now
            elif now - since > _TICK_NS:
                self._seen[folder_number] = changed
            left = left or not self._kept.issuperset(_listed(folder))
        return left

    def is_disk_low(self) -> bool:
        facts = os.statvfs(self._folders[0][0])
        return facts.f_bavail * facts.f_frsize < _LOW_BYTES

    def clear(self) -> bool:
        """False: something is still there."""
        entries = [path for folder, _ in self._folders for path in _listed(folder) if path not in self._kept]
        with contextlib.suppress(OSError):
            return _remove(entries, _MOST_ENTRIES) >= 0
        return False


def _listed(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    return []


def _remove(paths: list[str], most: int) -> int:
    """How many more may be removed; below 0 it has stopped."""
    for path in paths:
        most -= 1
        if most < 0:
            break
        if os.path.isdir(path) and not os.path.islink(path):
            most = _remove(_listed(path), most)
            if most >= 0:
                os.rmdir(path)
        else:
            os.unlink(path)
    return most
