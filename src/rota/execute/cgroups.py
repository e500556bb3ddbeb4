"""A cgroup v2 tree of our own: one parent per agent, one leaf per running attempt or warm child.

It gives one thing that nothing else on Linux gives: killing a whole tree of processes, however they forked,
without a race. Where no v2 tree can be written (no mount, no right), `open_parent` says None and `trees.py`
falls back to walking /proc. Limits on memory and pids will be set on the same leaves. Standard library
only: the keeper uses it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Parent:
    """Where this agent's leaves live."""

    path: str

    def leaf(self, name: str) -> str:
        return f"{self.path}/{name}"


def open_parent(data: Path) -> Parent | None:
    """Makes the parent for the agent on this data folder and proves it works by moving this process in and
    out.
    """
    home = _own_cgroup()
    if home is None:
        return None
    parent = Parent(path=f"{home}/{parent_name(data)}")
    probe = parent.leaf(f"probe-{os.getpid()}")
    try:
        os.makedirs(probe, exist_ok=True)
        move(probe, os.getpid())
        move(home, os.getpid())
        os.rmdir(probe)
        usable = os.path.exists(f"{parent.path}/cgroup.kill")
    except OSError:
        with contextlib.suppress(OSError):
            move(home, os.getpid())
        usable = False
    if usable:
        return parent
    remove(probe)
    remove(parent.path)
    return None


def existing_parent(data: Path) -> str | None:
    """The parent a previous agent on this data folder left behind."""
    home = _own_cgroup()
    path = f"{home}/{parent_name(data)}"
    return path if home is not None and os.path.isdir(path) else None


def parent_name(data: Path) -> str:
    digest = hashlib.blake2b(os.fsencode(data.resolve()), digest_size=6).hexdigest()
    return f"rota-{digest}"


def move(path: str, process: int) -> None:
    """What the process forks from now on is born there. One that has just ended is no trouble."""
    with contextlib.suppress(ProcessLookupError):
        _write(f"{path}/cgroup.procs", b"%d" % process)


def kill(path: str) -> None:
    """SIGKILL to every process in the subtree, also those being forked at this moment."""
    with contextlib.suppress(FileNotFoundError):
        _write(f"{path}/cgroup.kill", b"1")


def members(path: str) -> list[int]:
    """Every process in the cgroup and below it (a task may make cgroups of its own)."""
    found: list[int] = []
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            with open(f"{folder}/cgroup.procs") as listing:
                found += [int(line) for line in listing]
    return found


def remove(path: str) -> bool:
    """True when the cgroup is gone. False: something in it still lives (or dies); try again shortly."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        return _remove_nested(path)
    return True


def sweep(path: str, patience_seconds: float = 5.0) -> bool:
    """Kills and removes the whole tree at `path`; for start-up and for the keeper's end, where waiting is
    fine.
    """
    deadline = time.monotonic() + patience_seconds
    while os.path.isdir(path):
        kill(path)
        if _remove_nested(path):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _remove_nested(path: str) -> bool:
    for folder, names, _ in os.walk(path, topdown=False):
        for name in names:
            with contextlib.suppress(OSError):
                os.rmdir(f"{folder}/{name}")
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _own_cgroup() -> str | None:
    mount = _v2_mount()
    if mount is None:
        return None
    with contextlib.suppress(OSError):
        with open("/proc/self/cgroup") as lines:
            for line in lines:
                if line.startswith("0::"):
                    return os.path.normpath(mount + line.rstrip("\n")[3:])
    return None


def _v2_mount() -> str | None:
    with contextlib.suppress(OSError):
        with open("/proc/self/mountinfo") as lines:
            for line in lines:
                fields, _, rest = line.partition(" - ")
                if rest.startswith("cgroup2 "):
                    return fields.split()[4].replace("\\040", " ")
    return None


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
