"""Counts what a folder holds, a slice at a time: bytes on the disk, files and folders.

The task may change anything meanwhile: everything is reached through descriptors, and no link is followed. Names alone
are counted six times as fast as sizes: in a folder with many entries they come first, so that one with too many is
known soon.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator, Iterator

from rota.execute.keeper.unit import Unit

MOST_ENTRIES = 1_000_000  # files and folders that one attempt's folder may hold
MANY_ENTRIES = 16_000
_ENTRIES_PER_SLICE = 2_000
_NAMES_PER_SLICE = 10_000
_MOST_LEVELS = 200  # one open descriptor each

Slices = Iterator[int | None]  # bytes seen so far, after every slice; None: too many entries, or folders too deep


def slices(unit: Unit, most_entries: int) -> Slices:
    """Of its folder, and of removed files that its processes still hold open."""
    named: int | None = 0
    for named in folder_slices(unit.folder, most_entries):
        yield named
    if named is not None:
        for unnamed in _unnamed(unit):
            yield named + unnamed


def folder_slices(root: str, most_entries: int) -> Slices:
    total = 0
    linked: set[int] = set()  # files with several names count once
    for number, entry in enumerate(_walk(root), 1):
        has_too_many = number == MANY_ENTRIES and (yield from _has_too_many(root, most_entries, total))
        if has_too_many or entry is None or number > most_entries:
            yield None
            return
        with contextlib.suppress(OSError):
            facts = entry.stat(follow_symlinks=False)
            if facts.st_nlink == 1 or stat.S_ISDIR(facts.st_mode) or facts.st_ino not in linked:
                total += 512 * facts.st_blocks
            if facts.st_nlink > 1 and not stat.S_ISDIR(facts.st_mode):
                linked.add(facts.st_ino)
        if number % _ENTRIES_PER_SLICE == 0:
            yield total
    yield total


def _has_too_many(root: str, most_entries: int, seen_bytes: int) -> Generator[int, None, bool]:
    for number, entry in enumerate(_walk(root), 1):
        if entry is None or number > most_entries:
            return True
        if number % _NAMES_PER_SLICE == 0:
            yield seen_bytes
    return False


def _walk(root: str) -> Iterator[os.DirEntry[str] | None]:
    """Everything below a folder; None: it is too deep. A folder that can't be opened counts as empty."""
    levels: list[tuple[int, list[str]]] = []  # open folders, each inside the one before, and their unread subfolders
    folder = _open_folder(root, None)
    try:
        while folder is not None or levels:
            if folder is not None:
                below: list[str] = []
                levels.append((folder, below))
                with contextlib.suppress(OSError), os.scandir(folder) as listing:
                    for entry in listing:
                        if _is_folder(entry):
                            below.append(entry.name)
                        yield entry
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
    finally:
        for descriptor, _ in levels:
            os.close(descriptor)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        return entry.is_dir(follow_symlinks=False)
    return False


def _unnamed(unit: Unit) -> Iterator[int]:
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


def first_slice(folder: str) -> int:
    """The size of its content, or of the first slice of it: at least so much was written."""
    return next(folder_slices(folder, MOST_ENTRIES)) or 0


def free_bytes(folder: str) -> int | None:
    """Of its disk; None: the folder is gone."""
    with contextlib.suppress(OSError):
        facts = os.statvfs(folder)
        return facts.f_bfree * facts.f_frsize
    return None


def _open_folder(name: str, above: int | None) -> int | None:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:
        return None
