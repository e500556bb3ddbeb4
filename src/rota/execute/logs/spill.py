"""Output on the worker's disk while no server takes it: bounded, in files of a few megabytes that are removed once
sent.

The event loop's thread alone keeps the accounts (`reserve`, `free`); `write` and `read` touch only files and run in
other threads. The files do not outlive the agent: the next one begins with an empty folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rota.execute.machine.disk_space import DiskSpace

DEFAULT_SPILL_BYTES = 256 * 1024 * 1024
FILE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Extent:
    file: int
    start: int
    size: int


class Spill:
    """`disk`: below its reserve nothing is written, whatever the limit."""

    def __init__(self, folder: Path, disk: DiskSpace, *, limit_bytes: int = DEFAULT_SPILL_BYTES) -> None:
        self._folder = folder
        self._disk = disk
        self._limit_bytes = limit_bytes
        self._live: dict[int, int] = {}  # bytes still needed, by file
        self._sizes: dict[int, int] = {}  # all bytes, by file
        self._number = 0

    def open(self) -> None:
        """An empty folder, whatever a previous agent left."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for entry in os.scandir(self._folder):
            os.unlink(entry.path)

    @property
    def used_bytes(self) -> int:
        return sum(self._sizes.values())

    def reserve(self, sizes: Sequence[int]) -> list[Extent] | None:
        """Extents for these sizes, which belong to the caller until it frees them. None: there is no space."""
        if self.used_bytes + sum(sizes) > self._limit_bytes or self._disk.is_short(already=False):
            return None
        if self._sizes.get(self._number, 0) >= FILE_BYTES:
            full, self._number = self._number, self._number + 1
            self._drop_if_empty(full)
        extents = []
        for size in sizes:
            start = self._sizes.get(self._number, 0)
            extents.append(Extent(self._number, start, size))
            self._sizes[self._number] = start + size
            self._live[self._number] = self._live.get(self._number, 0) + size
        return extents

    def free(self, extent: Extent) -> None:
        self._live[extent.file] -= extent.size
        self._drop_if_empty(extent.file)

    def _drop_if_empty(self, number: int) -> None:
        if self._live.get(number) == 0:
            del self._live[number], self._sizes[number]
            self._path(number).unlink(missing_ok=True)
            if number == self._number:  # never the same name again: a thread may be about to read the old file
                self._number += 1

    # ---- in threads ------------------------------------------------------------------------------------------------

    def write(self, extents: Sequence[Extent], pieces: Sequence[bytes]) -> None:
        descriptor = os.open(self._path(extents[0].file), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for extent, piece in zip(extents, pieces, strict=True):
                view, at = memoryview(piece), extent.start
                while view:
                    written = os.pwrite(descriptor, view, at)
                    view, at = view[written:], at + written
        finally:
            os.close(descriptor)

    def read(self, extent: Extent) -> bytes | None:
        """None: it was freed meanwhile, or its file was removed."""
        try:
            descriptor = os.open(self._path(extent.file), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            data = os.pread(descriptor, extent.size, extent.start)
        finally:
            os.close(descriptor)
        return data if len(data) == extent.size else None

    def _path(self, number: int) -> Path:
        return self._folder / f"output-{number}"
