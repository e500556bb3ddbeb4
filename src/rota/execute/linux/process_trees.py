"""Whole process trees without cgroups: found through /proc by parent, session and the mark in their environment.

Every process of a task inherits `ROTA_WORKDIR`, which names its attempt's private folder; because the keeper is a
subreaper too, this also finds double-forked and setsid'ed descendants. It is the fallback and the start-up sweep,
weaker than a cgroup: a process that clears its environment *and* leaves its session can be found only as an orphan of
the keeper. The task can read the environment of its sandbox's first process: there the path above the folder is a
digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from collections.abc import Callable

MARK = "ROTA_WORKDIR"
_DEAD = (b"Z", b"X")
_NOT_RUNNING = (b"T", b"t", *_DEAD)  # stopped, traced, or dead
_STOP_ROUNDS = 200


def engine_mark(work: str) -> str:
    """The mark of a container engine's own processes, which belong to no attempt."""
    return f"{work}/engine"


def signal_all(processes: list[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def sign_of(folder: str) -> str:
    """An attempt's folder without the path above it."""
    above, _, name = folder.rpartition("/")
    return f"{_digest(above)}/{name}"


def _digest(path: str) -> str:
    return hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()


def marks_of(folder: str) -> tuple[bytes, ...]:
    """What the environment of the folder's processes holds, one or the other."""
    return tuple(f"{MARK}={text}\0".encode() for text in (folder, sign_of(folder)))


def stop_all(listing: Callable[[], list[int]]) -> bool:
    """SIGSTOP until nobody in the listing runs: one that forks meanwhile is stopped in the next round."""
    for _ in range(_STOP_ROUNDS):
        running = [process for process in listing() if not _has_state(process, _NOT_RUNNING)]
        if not running:
            return True
        signal_all(running, signal.SIGSTOP)
        time.sleep(0.001)
    return False


def continue_all(processes: list[int]) -> None:
    """The last first: a parent that looks after its children finds them running."""
    signal_all(processes[::-1], signal.SIGCONT)


def marked(folder: str, *, below: bool) -> list[int]:
    """Processes whose mark is exactly `folder`, or (`below`) any path inside it. Never this process itself."""
    marks = marks_of(folder)
    if below:
        marks = tuple(f"{MARK}={text}/".encode() for text in (folder, _digest(folder)))
    own = os.getpid()
    processes: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/environ", "rb") as environ:
                content = environ.read()
            if content.startswith(marks) or any(b"\0" + mark in content for mark in marks):
                processes.append(int(name))
    return processes


def descendants(root: int) -> list[int]:
    """Every live descendant of `root`, nearest first."""
    processes: list[int] = []
    edge = [root]
    while edge:
        edge = [child for parent in edge for child in children(parent)]
        processes += edge
    return processes


def children(parent: int) -> list[int]:
    processes: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{parent}/task"):
            with contextlib.suppress(OSError):
                with open(f"/proc/{parent}/task/{thread}/children") as listing:
                    processes += [int(word) for word in listing.read().split()]
    return processes


def of_attempt(main: int, folder: str) -> list[int]:
    """The tree of one attempt: its main process, all below it, its session, and every process with its mark."""
    processes = dict.fromkeys([main, *descendants(main), *marked(folder, below=False)])
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in processes and _session(int(name)) == main:
            processes[int(name)] = None
    processes.pop(os.getpid(), None)
    return list(processes)


def kill_marked(folder: str, *, below: bool, patience_seconds: float = 5.0) -> bool:
    """Kills until no process carries the mark: one that forks meanwhile is caught in the next round."""
    deadline = time.monotonic() + patience_seconds
    while True:
        left = [process for process in marked(folder, below=below) if not _has_state(process, _DEAD)]
        if not left:
            return True
        signal_all(left, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)


def written_bytes(process: int | str) -> int:
    """Bytes that it and the children it has waited for wrote to disks; also of a zombie."""
    return _number(f"/proc/{process}/io", b"write_bytes:")


def peak_bytes(process: int | str) -> int:
    """The peak memory of its current program."""
    return _number(f"/proc/{process}/status", b"VmHWM:") * 1024


def _number(path: str, key: bytes) -> int:
    """The number behind a line's key; 0 where the kernel has none. One read: such a file fits in a page."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = b"\n" + os.read(descriptor, 8192)
        finally:
            os.close(descriptor)
        return int(content.partition(b"\n" + key)[2].split(None, 1)[0])
    return 0


def _session(process: int) -> int | None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        return os.getsid(process)
    return None


def _has_state(process: int, states: tuple[bytes, ...]) -> bool:
    """Whether it is in one of these states, or gone."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{process}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] in states
    return True
