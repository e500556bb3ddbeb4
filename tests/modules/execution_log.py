"""How a task proves when it ran: lines in one file, and a kernel lock on the task's own byte of another.

Used by functions and by commands, so it imports the standard library only. A line is one write to a descriptor opened
for appending, so lines of different processes never mix. The lock belongs to the open file (not to the process), is
never waited for, and is let go by the kernel the moment its process dies, however it dies. See `harness/history.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Iterator


@contextlib.contextmanager
def executing(log: str, task: int, attempt: int) -> Iterator[None]:
    """Around the work of one attempt. Writes `start` (or `overlap`) and, unless killed, `end`."""
    lines = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    locks = os.open(f"{log}.locks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        verb = "start" if _take(locks, task) else "overlap"
        _write(lines, task, attempt, verb)
        try:
            yield
        finally:
            _write(lines, task, attempt, "end")
    finally:
        os.close(locks)
        os.close(lines)


def _take(descriptor: int, task: int) -> bool:
    byte = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, task, 1, 0)  # struct flock, native alignment
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, byte)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _write(descriptor: int, task: int, attempt: int, verb: str) -> None:
    os.write(descriptor, f"{task} {attempt} {verb} {time.monotonic_ns()} {os.getpid()}\n".encode())
