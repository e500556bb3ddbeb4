"""Finds units that have exceeded a limit, a bounded amount of work at a time.

The kernel counts memory and processes and refuses or kills by itself; the watch notices that, so that the rest of the
task is ended and the reason reported. Without control groups it counts both itself. It always counts what a task's
folder holds, entry by entry, with removed files that are still open; once more when the task has ended, which may be
before the first check. The task may change anything meanwhile: everything is reached through descriptors, no link is
followed, and no check takes longer than a few slices, because the keeper has one thread. Checks use at most a twentieth
of the time.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator

from rota.execute.keeper.memory_use import used_memory_bytes
from rota.execute.keeper.unit import Unit
from rota.execute.linux import process_trees
from rota.execute.linux.cgroup_limits import Counters

_CHECK_SECONDS = 0.1
_PAUSE_FACTOR = 20  # pause after a check, in times of its duration
_ENTRIES_PER_SLICE = 2_000
_SLICES_PER_CHECK = 8
MOST_ENTRIES = 1_000_000  # files and folders that one attempt's folder may hold
_MOST_LEVELS = 200  # one open descriptor each

OOM, PIDS, DISK, FILES = "oom", "pids-limit", "disk-limit", "files-limit"


class Watch:
    def __init__(
        self, *, samples_memory: bool, samples_processes: bool = False, most_entries: int = MOST_ENTRIES
    ) -> None:
        self._samples_memory = samples_memory  # no group counts memory
        self._samples_processes = samples_processes  # no group counts processes
        self._most_entries = most_entries
        self._counts: dict[Unit, Iterator[int | None]] = {}
        self.due_at = float("inf")

    def wake(self, now: float) -> None:
        """There is a unit to check."""
        self.due_at = min(self.due_at, now + _CHECK_SECONDS)

    def check(self, units: list[Unit], now: float) -> Iterator[Unit]:
        """Units that have exceeded a limit, one by one: kill each at once, as the worst slow the search for others."""
        began = time.process_time()  # CPU time: other processes may delay us
        watched = [unit for unit in units if not unit.over[0] and not unit.ended_at and self._is_limited(unit)]
        for unit in watched:
            if now - unit.started_at < _CHECK_SECONDS:
                continue  # most are over before they have used anything
            # Nobody waits for sandboxed processes: their writes can be read only while they live.
            if unit.confined or (unit.container is not None and unit.container.group is not None):
                unit.written_bytes = max(unit.written_bytes, sum(map(process_trees.written_bytes, unit.processes())))
            unit.over = self._over(unit)
            if unit.over[0]:
                yield unit
        for gone in [unit for unit in self._counts if unit.over[0] or (unit.ended_at and not unit.is_counted_last)]:
            del self._counts[gone]
        pause = max(_CHECK_SECONDS, _PAUSE_FACTOR * (time.process_time() - began))
        self.due_at = now + pause if watched else float("inf")

    def check_last(self, unit: Unit) -> bool:
        """Counts the folder of an ended unit once more. False: there is more to count, call again."""
        if unit.over[0] or not unit.disk_bytes:
            return True
        counting = self._counts.get(unit)
        if counting is None or not unit.is_counted_last:
            unit.is_counted_last = True
            self._counts[unit] = _sizes(unit.folder, self._most_entries)  # from the beginning: nothing changes any more
        unit.over = self._over_disk(unit)
        if unit.over[0]:
            del self._counts[unit]
        return unit not in self._counts

    def _is_limited(self, unit: Unit) -> bool:
        return (
            unit.leaf is not None
            or bool(unit.disk_bytes)
            or (self._samples_memory and bool(unit.limits.memory_bytes))
            or (self._samples_processes and bool(unit.limits.pids))
        )

    def _over(self, unit: Unit) -> tuple[str, int]:
        if unit.leaf is not None:
            over = over_by_counters(unit, unit.counters())
            if over[0]:
                return over
        for_memory = (self._samples_memory or unit.late) and unit.limits.memory_bytes
        for_number = self._samples_processes and unit.limits.pids
        processes = unit.processes() if for_memory or for_number else []
        if for_number and len(processes) > unit.limits.pids:
            return PIDS, unit.granted_processes
        if for_memory:
            used = used_memory_bytes(processes, enough=unit.limits.memory_bytes)
            unit.peak_bytes = max(unit.peak_bytes, min(used, unit.limits.memory_bytes))
            if used > unit.limits.memory_bytes:
                return OOM, used
        if unit.disk_bytes:
            return self._over_disk(unit)
        return "", 0

    def _over_disk(self, unit: Unit) -> tuple[str, int]:
        counting = self._counts.get(unit)
        if counting is None:
            counting = self._counts[unit] = _count_entries(unit, self._most_entries)
        for _ in range(_SLICES_PER_CHECK):
            try:
                seen = next(counting)
            except StopIteration:
                del self._counts[unit]  # the next check starts from the beginning
                return "", 0
            if seen is None:
                return FILES, self._most_entries
            if seen > unit.disk_bytes:
                return DISK, seen
        return "", 0


def over_by_counters(unit: Unit, counters: Counters) -> tuple[str, int]:
    """The limit that the kernel's counters show as exceeded; also valid once the unit has ended."""
    if counters.oom_kills:
        return OOM, counters.peak_memory_bytes
    if counters.pids_refused:
        return PIDS, unit.granted_processes
    return "", 0


def folder_bytes(folder: str) -> int:
    """The size of its content, or of the first slice of it: at least so much was written."""
    return next(_sizes(folder, MOST_ENTRIES)) or 0


def _count_entries(unit: Unit, most_entries: int) -> Iterator[int | None]:
    """Bytes seen so far, after every slice; None when there are too many entries."""
    named: int | None = 0
    for named in _sizes(unit.folder, most_entries):
        yield named
    if named is not None:
        for unnamed in _unnamed_sizes(unit):
            yield named + unnamed


def _sizes(root: str, most_entries: int) -> Iterator[int | None]:
    """Bytes below a folder. A folder that can't be opened counts as empty."""
    total = entries = 0
    linked: set[int] = set()  # files with several names count once
    levels: list[tuple[int, list[str]]] = []  # open folders, each inside the one before, and their unread subfolders
    folder = _open_folder(root, None)
    try:
        while folder is not None or levels:
            if folder is not None:
                below: list[str] = []
                levels.append((folder, below))
                with contextlib.suppress(OSError), os.scandir(folder) as listing:
                    for entry in listing:
                        entries += 1
                        with contextlib.suppress(OSError):
                            facts = entry.stat(follow_symlinks=False)
                            if stat.S_ISDIR(facts.st_mode):
                                below.append(entry.name)
                            elif facts.st_nlink > 1:
                                if facts.st_ino in linked:
                                    continue
                                linked.add(facts.st_ino)
                            total += 512 * facts.st_blocks
                        if entries % _ENTRIES_PER_SLICE == 0:
                            yield total
                        if entries > most_entries:
                            yield None
                            return
                if len(levels) > _MOST_LEVELS:
                    yield None
                    return
            descriptor, waiting = levels[-1]
            folder = None
            if waiting:
                folder = _open_folder(waiting.pop(), descriptor)
            else:
                levels.pop()
                os.close(descriptor)
        yield total
    finally:
        for descriptor, _ in levels:
            os.close(descriptor)


def _unnamed_sizes(unit: Unit) -> Iterator[int]:
    """Removed files that are still open or mapped in the unit: they take disk space too."""
    total = looked = 0
    seen: set[int] = set()
    try:
        device = os.stat(unit.folder).st_dev
    except OSError:
        return
    for process in unit.processes():
        for kind in ("fd", "map_files"):
            with contextlib.suppress(OSError), os.scandir(f"/proc/{process}/{kind}") as listing:
                for entry in listing:
                    looked += 1
                    with contextlib.suppress(OSError):
                        facts = os.stat(entry.path)
                        if (
                            facts.st_nlink == 0
                            and facts.st_dev == device
                            and stat.S_ISREG(facts.st_mode)
                            and facts.st_ino not in seen
                        ):
                            seen.add(facts.st_ino)
                            total += 512 * facts.st_blocks
                    if looked % _ENTRIES_PER_SLICE == 0:
                        yield total
    yield total


def _open_folder(name: str, above: int | None) -> int | None:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:
        return None
