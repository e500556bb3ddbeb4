"""How a task proves when it ran: lines in one file, and a kernel lock on the task's own byte of another.

Used by functions and by commands, so it imports the standard library only. A line is one write to a descriptor opened
for appending, so lines of different processes never mix. The lock belongs to the open file (not to the process), is
never waited for, and is let go by the kernel the moment its process dies, however it dies. A frozen process keeps it and
can't act; whoever finds it taken looks whether its holder is frozen. See `harness/history.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Iterator

_BYTES_A_TASK = 8  # an attempt may begin beside frozen ones, which keep their bytes until they are killed
_FARTHER = 1 << 40


@contextlib.contextmanager
def executing(log: str, task: int, attempt: int) -> Iterator[None]:
    """Around the work of one attempt. Writes `start`, `beside` or `overlap` and, unless killed, `end`."""
    lines = os.open(log, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    locks = os.open(f"{log}.locks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        held = _take(locks, task)
        verb = "start" if not held else "beside" if held <= _frozen_ones(log, task) else "overlap"
        _write(lines, task, attempt, verb)
        try:
            yield
        finally:
            _write(lines, task, attempt, "end")
    finally:
        os.close(locks)
        os.close(lines)


def _take(descriptor: int, task: int) -> int:
    """Takes the first free byte of the task; returns how many of its bytes others hold."""
    held, mine = 0, None
    for number in range(_BYTES_A_TASK):
        byte = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, task + number * _FARTHER, 1, 0)  # struct flock
        try:
            if mine is None:
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, byte)
                mine = number
                continue
        except (BlockingIOError, PermissionError):
            held += 1
            continue
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, byte)
        held += struct.unpack_from("h", found)[0] != fcntl.F_UNLCK
    return held


def _frozen_ones(log: str, task: int) -> int:
    """How many earlier executions of the task have not ended and are frozen: they can't act."""
    pids: dict[str, None] = {}
    with open(log) as lines:
        for line in lines:
            number, _, verb, _, pid = line.split()
            if int(number) == task and verb == "end":
                pids.pop(pid, None)
            elif int(number) == task:
                pids[pid] = None
    return sum(map(is_frozen, pids))


def is_frozen(pid: str | int) -> bool:
    """Whether its control group stands still, all of it."""
    try:
        with open("/proc/self/mountinfo") as listing:
            mount = next(line.split()[4] for line in listing if " - cgroup2 " in line)
        with open(f"/proc/{pid}/cgroup") as listing:
            own = next(line[3:].strip() for line in listing if line.startswith("0::"))
        with open(f"{mount}{own}/cgroup.events") as events:
            return "frozen 1" in events.read()
    except (OSError, StopIteration):
        return False


def _write(descriptor: int, task: int, attempt: int, verb: str) -> None:
    os.write(descriptor, f"{task} {attempt} {verb} {time.monotonic_ns()} {os.getpid()}\n".encode())
