"""The benchmark's tasks: they append to a file in memory, so that completion is counted outside the system."""

from __future__ import annotations

import os
import struct
import time

_files: dict[str, int] = {}


def _file(name: str) -> int:
    path = f"{os.environ.get('ROTA_BENCH_SHM', '/dev/shm/rota-bench')}-{name}"
    if path not in _files:
        _files[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    return _files[path]


def noop() -> None:
    os.write(_file("done"), b".")


def nothing() -> None:
    """For sandboxed children, which can't see the file."""


def stamp(submitted_ns: int) -> None:
    os.write(_file("stamps"), struct.pack("qq", submitted_ns, time.time_ns()))


def spin(begin: float, end: float) -> float:
    """Busy from one moment of the machine's monotonic clock to another; the CPU seconds used."""
    time.sleep(max(0.0, begin - time.monotonic()))
    used = time.process_time()
    while time.monotonic() < end:
        pass
    return time.process_time() - used
