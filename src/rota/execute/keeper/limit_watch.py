"""Finds units that have exceeded a limit, a bounded amount of work at a time.

The kernel counts memory and processes and refuses or kills by itself; the watch notices that, so that the rest of the
task is ended and the reason reported. Without control groups it counts both itself. It always counts what a task's
folder holds (`folder_size.py`); once more when the task has ended, which may be before the first check. No check takes
longer than a few slices, because the keeper has one thread. Checks use at most a twentieth of the time, a fifth while a
folder with many files is counted.

A folder that may fill up before the next check is near its limit: then the watch looks at the disk's free space, which
is one call, up to 200 times a second, and counts the folder again as soon as the disk has lost half of what is left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from rota.execute.keeper import folder_size
from rota.execute.keeper.folder_size import MOST_ENTRIES, Slices
from rota.execute.keeper.memory_use import used_memory_bytes
from rota.execute.keeper.unit import Unit
from rota.execute.linux import process_trees
from rota.execute.linux.cgroup_limits import Counters

_CHECK_SECONDS = 0.1
_GLANCE_SECONDS = 0.005
_FASTEST_BYTES = 2_000_000_000  # what a task may write in a second, to the page cache
_NEAR_BYTES = int(_FASTEST_BYTES * _CHECK_SECONDS)
_PAUSE_FACTOR = 20  # pause after a check, in times of its duration
_PAUSE_FACTOR_OF_MANY = 4
_SLICES_PER_CHECK = 8

OOM, PIDS, DISK, FILES = "oom", "pids-limit", "disk-limit", "files-limit"
NEVER = float("inf")


@dataclass(slots=True)
class _Count:
    slices: Slices
    seen_bytes: int = 0


class Watch:
    def __init__(
        self, *, samples_memory: bool, samples_processes: bool = False, most_entries: int = MOST_ENTRIES
    ) -> None:
        self._samples_memory = samples_memory  # no group counts memory
        self._samples_processes = samples_processes  # no group counts processes
        self._most_entries = most_entries
        self._counts: dict[Unit, _Count] = {}  # under way
        self._long: dict[Unit, None] = {}  # counts that take several checks; they take turns
        self._near: dict[Unit, tuple[int, int]] = {}  # near its limit → bytes counted, the disk's free bytes then
        self._check_at = self._glance_at = NEVER

    @property
    def due_at(self) -> float:
        return min(self._check_at, self._glance_at)

    def wake(self, unit: Unit, now: float) -> None:
        """There is a unit to check."""
        self._check_at = min(self._check_at, now + _CHECK_SECONDS)
        if 0 < unit.disk_bytes < _NEAR_BYTES:
            self._note(unit, 0)
            self._glance_at = min(self._glance_at, now + _GLANCE_SECONDS)

    def look(self, units: list[Unit], now: float) -> Iterator[Unit]:
        """Units that have exceeded a limit, one by one: kill each at once, as the worst slow the search for others."""
        if now >= self._check_at:
            yield from self._check(units, now)
        if now >= self._glance_at:
            yield from self._glance(now)

    def _check(self, units: list[Unit], now: float) -> Iterator[Unit]:
        began = time.process_time()  # CPU time: other processes may delay us
        watched = [unit for unit in units if not unit.over[0] and not unit.ended_at and self._is_limited(unit)]
        turn = next(iter(self._long), None)
        for unit in watched:
            if now - unit.started_at < _CHECK_SECONDS:
                continue  # most are over before they have used anything
            # Nobody waits for sandboxed processes: their writes can be read only while they live.
            if unit.confined or (unit.container is not None and unit.container.group is not None):
                unit.written_bytes = max(unit.written_bytes, sum(map(process_trees.written_bytes, unit.processes())))
            unit.over = self._over(unit, is_its_turn=unit not in self._long or unit is turn)
            if unit.over[0]:
                yield unit
        for gone in [unit for unit in self._counts if unit.over[0] or (unit.ended_at and not unit.is_counted_last)]:
            self._forget(gone)
        factor = _PAUSE_FACTOR_OF_MANY if self._long else _PAUSE_FACTOR
        pause = max(_CHECK_SECONDS, factor * (time.process_time() - began))
        self._check_at = now + pause if watched else NEVER
        if self._near:
            self._glance_at = min(self._glance_at, now + _GLANCE_SECONDS)

    def _glance(self, now: float) -> Iterator[Unit]:
        began = time.process_time()
        for gone in [unit for unit in self._near if unit.over[0] or unit.ended_at]:
            del self._near[gone]
        free = next((free for unit in self._near if (free := folder_size.free_bytes(unit.folder)) is not None), 0)
        for unit, (seen, before) in list(self._near.items()):
            self._near[unit] = (seen, max(before, free))  # others may free space meanwhile
            if before - free >= (unit.disk_bytes - seen) // 2 and unit not in self._long:
                unit.over = self._over_disk(unit)
                if unit.over[0]:
                    yield unit
        least = min((unit.disk_bytes - seen for unit, (seen, _) in self._near.items()), default=0)
        pause = max(_GLANCE_SECONDS, least / _FASTEST_BYTES, _PAUSE_FACTOR * (time.process_time() - began))
        self._glance_at = now + pause if self._near else NEVER

    def check_last(self, unit: Unit) -> bool:
        """Counts the folder of an ended unit once more. False: there is more to count, call again."""
        if unit.over[0] or not unit.disk_bytes:
            return True
        if unit not in self._counts or not unit.is_counted_last:
            unit.is_counted_last = True
            # from the beginning: nothing changes any more
            self._counts[unit] = _Count(folder_size.folder_slices(unit.folder, self._most_entries))
        unit.over = self._over_disk(unit)
        if unit.over[0]:
            self._forget(unit)
        return unit not in self._counts

    def _is_limited(self, unit: Unit) -> bool:
        return (
            unit.leaf is not None
            or bool(unit.disk_bytes)
            or (self._samples_memory and bool(unit.limits.memory_bytes))
            or (self._samples_processes and bool(unit.limits.pids))
        )

    def _over(self, unit: Unit, *, is_its_turn: bool) -> tuple[str, int]:
        if unit.leaf is not None:
            over = over_by_counters(unit, unit.counters())
            if over[0]:
                return over
        for_memory = (self._samples_memory or unit.late) and unit.limits.memory_bytes
        for_number = self._samples_processes and unit.limits.pids
        processes = unit.processes() if for_memory or for_number else []
        if for_number and len(processes) > unit.limits.pids:
            return PIDS, len(processes) - (unit.limits.pids - unit.granted_processes)
        if for_memory:
            used = used_memory_bytes(processes, enough=unit.limits.memory_bytes)
            unit.peak_bytes = max(unit.peak_bytes, min(used, unit.limits.memory_bytes))
            if used > unit.limits.memory_bytes:
                return OOM, used
        if unit.disk_bytes and is_its_turn:
            return self._over_disk(unit)
        return "", 0

    def _over_disk(self, unit: Unit) -> tuple[str, int]:
        count = self._counts.get(unit)
        if count is None:
            count = self._counts[unit] = _Count(folder_size.slices(unit, self._most_entries))
        for _ in range(_SLICES_PER_CHECK):
            try:
                seen = next(count.slices)
            except StopIteration:
                self._forget(unit)  # the next check starts from the beginning
                self._note(unit, count.seen_bytes)
                return "", 0
            if seen is None:
                return FILES, self._most_entries
            if seen > unit.disk_bytes:
                return DISK, seen
            count.seen_bytes = seen
        self._long.pop(unit, None)
        self._long[unit] = None  # behind the others
        return "", 0

    def _note(self, unit: Unit, seen_bytes: int) -> None:
        """Its folder held so much just now."""
        is_near = 0 < unit.disk_bytes - seen_bytes < _NEAR_BYTES
        free = folder_size.free_bytes(unit.folder) if is_near and not unit.ended_at else None
        if free is None:
            self._near.pop(unit, None)
        else:
            self._near[unit] = (seen_bytes, free)

    def _forget(self, unit: Unit) -> None:
        self._counts.pop(unit, None)
        self._long.pop(unit, None)


def over_by_counters(unit: Unit, counters: Counters) -> tuple[str, int]:
    """The limit that the kernel's counters show as exceeded; also valid once the unit has ended."""
    if counters.oom_kills:
        return OOM, counters.peak_memory_bytes
    if counters.pids_refused:
        return PIDS, unit.granted_processes  # it had them all, and asked for more
    return "", 0
