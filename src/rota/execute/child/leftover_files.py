"""What a call leaves in the folders of its warm child: gone before the next one, or the child goes. In the child.

Whether anything was left is seen by the folders' times, one system call each; only then are they listed. What was there
before the first call, or came with a module that was loaded, stays: it is the program's, not a call's. Standard library
only, and little of it: every child loads this.
"""

from __future__ import annotations

import contextlib
import os
import time

_MOST_ENTRIES = 1_000  # to be removed here; with more it is quicker to begin anew
_TICK_NS = 20_000_000  # a folder's time may stand still for so long while things are put into it
_LOW_BYTES = 64 * 1024 * 1024


class LeftoverFiles:
    def __init__(self, folders: list[str]) -> None:
        self._folders = [(folder, os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) for folder in folders]
        self._seen = [0] * len(folders)
        self._changed = [(0, 0)] * len(folders)  # to what, and since when we know
        self._kept: set[str] = set()
        self.keep()

    def keep(self) -> None:
        """All there is now may stay."""
        self._kept.update(path for folder, _ in self._folders for path in _listed(folder))

    def is_left(self) -> bool:
        left = False
        for place, (folder, descriptor) in enumerate(self._folders):
            changed, now = os.fstat(descriptor).st_mtime_ns, time.monotonic_ns()
            if changed == self._seen[place]:
                continue
            # What has changed may change once more within the same tick of the file system's clock, and look the same:
            # nothing is taken as seen before it has stayed the same for longer.
            known, since = self._changed[place]
            if known != changed:
                self._changed[place] = changed, now
            elif now - since > _TICK_NS:
                self._seen[place] = changed
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
