"""How much memory a tree of processes uses, where no control group counts it. Read from /proc.

Counted is what would be free without the tree: private memory, memory shared between its processes, and memfds that are
not mapped anywhere. Cheap figures, which are never too small, come first; exact ones, for which the kernel walks all of
a process's memory, only if the cheap ones exceed the limit.
"""

from __future__ import annotations

import contextlib
import os

_MEMFD = "/memfd:"


def used_memory_bytes(processes: list[int], *, enough: int) -> int:
    """Exact only when it may be more than `enough`, else possibly too large."""
    in_memory = _memfds(processes)
    most = sum(map(_resident_bytes, processes)) + sum(in_memory.values())
    if most <= enough:
        return most
    mapped = {inode for process in processes for inode in _mapped_memfds(process)}
    unmapped = sum(size for inode, size in in_memory.items() if inode not in mapped)
    return sum(map(_own_share_bytes, processes)) + unmapped


def _resident_bytes(process: int) -> int:
    """Without files. Shared memory counts for each process: never too little."""
    return _keyed_kib(f"/proc/{process}/status", (b"RssAnon:", b"RssShmem:"))


def _own_share_bytes(process: int) -> int:
    """The same with shared memory divided among its users."""
    return _keyed_kib(f"/proc/{process}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:")) or _resident_bytes(process)


def _keyed_kib(path: str, keys: tuple[bytes, ...]) -> int:
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError), open(path, "rb") as file:
        for line in file:
            if line.startswith(keys):
                total += int(line.split()[1]) * 1024
    return total


def _memfds(processes: list[int]) -> dict[int, int]:
    """By inode, the bytes of each memfd that any of them has open."""
    sizes: dict[int, int] = {}
    for process in processes:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{process}/fd") as listing:
            for entry in listing:
                with contextlib.suppress(OSError):
                    if os.readlink(entry.path).startswith(_MEMFD):
                        facts = os.stat(entry.path)
                        sizes[facts.st_ino] = 512 * facts.st_blocks
    return sizes


def _mapped_memfds(process: int) -> list[int]:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/maps", "rb") as maps:
        return [int(line.split()[4]) for line in maps if _MEMFD.encode() in line]
    return []
