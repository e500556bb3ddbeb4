"""Artifacts kept on this node's disk by tenant and digest; the least recently used are removed first.

One tenant's files are never another's, even if the bytes are equal, so that nobody learns what others have. A file is
checked before it has its name and read-only from then on. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections import OrderedDict
from pathlib import Path

Entry = tuple[int, str]  # tenant, digest in hexadecimal

_COPY_BYTES = 64 * 1024 * 1024


class ArtifactCache:
    """One file may exceed `limit_bytes`: the newest always stays until the next one comes."""

    def __init__(self, folder: Path, *, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._sizes: OrderedDict[Entry, int] = OrderedDict()  # least recently used first
        self._total = 0
        self._incoming = folder / "incoming"
        self._number = 0

    def open(self) -> None:
        """Call it once, before use: finds the files of an earlier agent and removes its unfinished ones."""
        for path in (self._folder, self._incoming):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in self._incoming.iterdir():
            leftover.unlink()
        files = []
        for tenant in self._folder.iterdir():
            if tenant.name.isdigit():
                files += [(path.stat(), (int(tenant.name), path.name)) for path in tenant.iterdir()]
        with self._lock:
            for facts, entry in sorted(files, key=lambda pair: pair[0].st_mtime):
                self._sizes[entry] = facts.st_size
                self._total += facts.st_size
            self._make_space(keeping=None)

    def find(self, entry: Entry) -> int | None:
        """A descriptor to read from, which outlives the file's removal; None when the artifact is not here."""
        path = self._path(entry)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with self._lock:
            if entry in self._sizes:
                self._sizes.move_to_end(entry)
        with contextlib.suppress(OSError):
            os.utime(path)  # a restarted agent reads the order from it
        return descriptor

    def begin(self) -> tuple[int, Path]:
        """An empty file to write into, and its path."""
        with self._lock:
            self._number += 1
            path = self._incoming / f"{os.getpid()}-{self._number}"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path

    def keep(self, entry: Entry, descriptor: int, path: Path) -> None:
        """Gives a whole and checked file its name, in one step."""
        os.fchmod(descriptor, 0o444)
        os.fsync(descriptor)
        target = self._path(entry)
        target.parent.mkdir(exist_ok=True, mode=0o700)
        size = os.fstat(descriptor).st_size
        with self._lock:
            os.rename(path, target)
            self._total += size - self._sizes.pop(entry, 0)
            self._sizes[entry] = size
            self._make_space(keeping=entry)

    def discard(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    @property
    def size_bytes(self) -> int:
        return self._total

    def _make_space(self, *, keeping: Entry | None) -> None:
        for entry in list(self._sizes):
            if self._total <= self._limit_bytes:
                return
            if entry != keeping:
                self._path(entry).unlink(missing_ok=True)
                self._total -= self._sizes.pop(entry)

    def _path(self, entry: Entry) -> Path:
        return self._folder / str(entry[0]) / entry[1]


def copy_into(descriptor: int, folder: int, name: str, *, executable: bool = False, owner: int | None = None) -> None:
    """Copies a fetched file into a folder (a descriptor) under a plain name; never over an existing file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(name, flags, 0o700 if executable else 0o600, dir_fd=folder)
    try:
        facts = os.fstat(descriptor)
        assert stat.S_ISREG(facts.st_mode), "the cache holds regular files only"
        done = 0
        while done < facts.st_size:
            copied = os.sendfile(target, descriptor, done, min(_COPY_BYTES, facts.st_size - done))
            if not copied:
                raise OSError(f"{name}: the source ended early")
            done += copied
        if owner is not None:
            os.fchown(target, owner, owner)
    finally:
        os.close(target)
