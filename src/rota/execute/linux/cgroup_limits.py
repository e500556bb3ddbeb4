"""Limits that the kernel enforces: one control group per attempt in every hierarchy with a controller we use.

Two layouts are supported. *v2*: one tree, controllers enabled downwards. *v1*: a tree per controller, with a v2 tree
beside them for `cgroup.kill` and `cgroup.freeze`, or the v1 freezer. Which controllers work is proven at start by
making a group, setting each limit in it and joining it; what can't be proven is not offered. Everything here reads and
writes small files; others decide what the numbers mean for a task.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import NamedTuple

MEMORY, PIDS, CPU, IO = "memory", "pids", "cpu", "io"
LIMITED = (MEMORY, PIDS, CPU, IO)
KILL = "kill"  # the v2 tree: one write kills or freezes a whole group
FREEZER = "freezer"  # the v1 tree that freezes; used only where there is no v2 tree
_V1_NAMES = {FREEZER: "freezer", MEMORY: "memory", PIDS: "pids", CPU: "cpu", IO: "blkio"}
_PERIOD_US = 100_000
_SHORT_BYTES = 2048  # a shorter read is the last one: the kernel fills a page with whole lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of an attempt; 0: no limit."""

    memory_bytes: int = 0
    pids: int = 0
    cpu_milli: int = 0  # its weight, and its quota unless it may burst
    cpu_burst: bool = False  # may use idle CPU beyond it
    iops: int = 0
    device: str = ""  # "major:minor" of the disk the operations are counted on


class Counters(NamedTuple):
    """The kernel's counters of a group."""

    oom_kills: int = 0
    pids_refused: int = 0
    peak_memory_bytes: int = 0
    cpu_us: int = 0


@dataclass(frozen=True, slots=True)
class Trees:
    """The parents of this agent's groups by controller; `is_v2` when all are one tree."""

    is_v2: bool
    parents: dict[str, str] = field(default_factory=dict)

    def leaf(self, name: str) -> Leaf:
        return Leaf(self.is_v2, {controller: f"{parent}/{name}" for controller, parent in self.parents.items()})


@dataclass(frozen=True, slots=True)
class Leaf:
    """One attempt's group in each hierarchy."""

    is_v2: bool
    paths: dict[str, str]

    @property
    def folders(self) -> list[str]:
        return list(dict.fromkeys(self.paths.values()))

    def make(self) -> None:
        for folder in self.folders:
            os.mkdir(folder)

    @property
    def unified(self) -> str | None:
        """Its folder in the v2 tree, in which a process can be spawned."""
        return self.paths.get(KILL) or next(iter(self.paths.values()), None) if self.is_v2 else self.paths.get(KILL)

    def take_in(self, process: int) -> None:
        """Moves a process in; one that has just ended is no error."""
        for folder in self.folders:
            with contextlib.suppress(ProcessLookupError):
                write(f"{folder}/cgroup.procs", str(process))

    def own_entries(self) -> list[str]:
        """The files through which a thread moves itself into its v1 groups, without taking a lock."""
        return [f"{folder}/tasks" for folder in self.folders if folder != self.unified]

    def enter(self, *, is_in_unified: bool = False) -> None:
        """Moves the calling process in, which must have only one thread."""
        for door in self.own_entries():
            write(door, "0")
        if self.unified is not None and not is_in_unified:
            write(f"{self.unified}/cgroup.procs", "0")

    def limit(self, limits: Limits) -> None:
        """Sets the given limits; one without a controller is skipped. OSError: the kernel refused."""
        for controller, settings in (_v2_settings(limits) if self.is_v2 else _v1_settings(limits)).items():
            folder = self.paths.get(controller)
            if folder is None:
                continue
            for name, value, must in settings:
                try:
                    write(f"{folder}/{name}", value)
                except OSError:
                    if must:
                        raise

    def is_populated(self) -> bool:
        """Whether a process in it lives or is dying; read in the v2 tree, the only one that knows."""
        unified = self.unified
        return unified is not None and _keyed(f"{unified}/cgroup.events", "populated") == 1

    def freeze(self) -> bool:
        """Stops every process in it and below it where it is. False: no group here can; OSError: the kernel refused."""
        return self._set_frozen("1", "FROZEN")

    def thaw(self) -> bool:
        return self._set_frozen("0", "THAWED")

    def _set_frozen(self, v2: str, v1: str) -> bool:
        if KILL in self.paths:
            write(f"{self.paths[KILL]}/cgroup.freeze", v2)
        elif FREEZER in self.paths:
            write(f"{self.paths[FREEZER]}/freezer.state", v1)
        else:
            return False
        return True

    def oom_signal(self) -> int | None:
        """v1 only: a descriptor that counts each time this group, with all below it, ran out of memory.

        In v2 a group counts for all below it; in v1 each counts for itself, and the count of a removed one is lost.
        """
        memory = self.paths.get(MEMORY)
        if self.is_v2 or memory is None:
            return None
        signal = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            source = os.open(f"{memory}/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
            try:
                write(f"{memory}/cgroup.event_control", f"{signal} {source}")
            finally:
                os.close(source)
        except OSError:
            os.close(signal)
            raise
        return signal

    def counters(self, *, deep: bool = False) -> Counters:
        """`deep`: also of groups that an engine makes below; in v1 each counts for itself."""
        memory, pids, tree = self.paths.get(MEMORY), self.paths.get(PIDS), self.paths.get(KILL)
        oom = peak = refused = cpu_us = 0
        if memory is not None:
            oom = _keyed(f"{memory}/{'memory.events' if self.is_v2 else 'memory.oom_control'}", "oom_kill")
            peak = _number(f"{memory}/{'memory.peak' if self.is_v2 else 'memory.max_usage_in_bytes'}")
        if pids is not None:
            refused = _keyed(f"{pids}/pids.events", "max")
            if deep and not refused and not self.is_v2:
                refused = sum(_keyed(f"{folder}/pids.events", "max") for folder in _below(pids))
        if tree is not None:  # every v2 group counts it, with or without the controller
            cpu_us = _keyed(f"{tree}/cpu.stat", "usage_usec")
        return Counters(oom, refused, peak, cpu_us)


def _v2_settings(limits: Limits) -> dict[str, list[tuple[str, str, bool]]]:
    settings: dict[str, list[tuple[str, str, bool]]] = {}
    if limits.memory_bytes:
        settings[MEMORY] = [
            ("memory.oom.group", "1", False),
            ("memory.swap.max", "0", False),  # a kernel without swap has no such file
            ("memory.max", str(limits.memory_bytes), True),
        ]
    if limits.pids:
        settings[PIDS] = [("pids.max", str(limits.pids), True)]
    if limits.cpu_milli:
        settings[CPU] = [
            ("cpu.weight", str(min(10_000, max(1, limits.cpu_milli // 10))), True),
            ("cpu.max", f"{'max' if limits.cpu_burst else _quota_us(limits.cpu_milli)} {_PERIOD_US}", True),
        ]
    if limits.iops and limits.device:
        settings[IO] = [("io.max", f"{limits.device} riops={limits.iops} wiops={limits.iops}", True)]
    return settings


def _v1_settings(limits: Limits) -> dict[str, list[tuple[str, str, bool]]]:
    settings: dict[str, list[tuple[str, str, bool]]] = {}
    if limits.memory_bytes:
        settings[MEMORY] = [
            ("memory.limit_in_bytes", str(limits.memory_bytes), True),
            ("memory.memsw.limit_in_bytes", str(limits.memory_bytes), False),  # only with swap accounting
        ]
    if limits.pids:
        settings[PIDS] = [("pids.max", str(limits.pids), True)]
    if limits.cpu_milli:
        settings[CPU] = [
            ("cpu.shares", str(shares_of(limits.cpu_milli)), True),
            ("cpu.cfs_period_us", str(_PERIOD_US), True),
            ("cpu.cfs_quota_us", str(-1 if limits.cpu_burst else _quota_us(limits.cpu_milli)), True),
        ]
    if limits.iops and limits.device:
        setting = f"{limits.device} {limits.iops}"
        settings[IO] = [
            ("blkio.throttle.read_iops_device", setting, True),
            ("blkio.throttle.write_iops_device", setting, True),
        ]
    return settings


def shares_of(cpu_milli: int) -> int:
    """A weight as v1 and the engines write it: 1024 for a CPU, at least 2."""
    return max(2, cpu_milli * 1024 // 1000)


def _quota_us(cpu_milli: int) -> int:
    return max(1000, cpu_milli * _PERIOD_US // 1000)  # the kernel's minimum is a millisecond


# ---- finding and proving -------------------------------------------------------------------------------------------


def mounts_of(mountinfo: str) -> tuple[str | None, dict[str, tuple[str, str]]]:
    """The v2 mount, and for each v1 controller its mount and the part of the hierarchy mounted there. Pure."""
    v2 = None
    v1: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        fields, rest = head.split(), tail.split()
        if len(fields) < 5 or len(rest) < 3:
            continue
        mount, root = fields[4].replace("\\040", " "), fields[3]
        if rest[0] == "cgroup2" and v2 is None:
            v2 = mount
        elif rest[0] == "cgroup":
            for option in rest[2].split(","):
                v1.setdefault(option, (mount, root))
    return v2, v1


def own_groups(listing: str) -> dict[str, str]:
    """/proc/self/cgroup: for each v1 controller, and "" for v2, this process's group. Pure."""
    groups: dict[str, str] = {}
    for line in listing.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def find_v1(mountinfo: str, listing: str) -> dict[str, str]:
    """The folder of this process's own group for each v1 controller we use. Pure."""
    _, mounts = mounts_of(mountinfo)
    groups = own_groups(listing)
    folders: dict[str, str] = {}
    for controller, name in _V1_NAMES.items():
        if name not in mounts or name not in groups:
            continue
        mount, root = mounts[name]
        path = groups[name]
        if root != "/" and (path == root or path.startswith(root + "/")):
            path = path[len(root) :] or "/"  # inside a container only a part of the hierarchy is mounted
        folders[controller] = os.path.normpath(mount + path)
    return folders


def container_parents(mountinfo: str, home: str, name: str) -> dict[str, str]:
    """A folder in every v1 hierarchy under one and the same path, which is how engines name a group. Pure.

    By controller; hierarchies that only engines use, by their mount. Partly mounted ones are left out.
    """
    _, mounts = mounts_of(mountinfo)
    by_mount = {mount: mount for mount, root in mounts.values() if root == "/"}
    by_mount |= {
        mounts[v1][0]: controller for controller, v1 in _V1_NAMES.items() if mounts.get(v1, ("", ""))[1] == "/"
    }
    return {key: os.path.normpath(f"{mount}/{home}/{name}") for mount, key in by_mount.items()}


def prove(trees: Trees, *, device: str) -> Trees:
    """The same trees with only those controllers in which a group can really be made, limited and joined."""
    proven: dict[str, str] = {}
    limits = Limits(memory_bytes=64 * 1024 * 1024, pids=64, cpu_milli=1000, iops=1000 if device else 0, device=device)
    for controller, parent in trees.parents.items():
        leaf = Leaf(trees.is_v2, {controller: f"{parent}/probe-{os.getpid()}"})
        with contextlib.suppress(OSError):
            os.makedirs(leaf.paths[controller])
            leaf.limit(limits)
            if _joins(leaf) and (controller != IO or device):
                proven[controller] = parent
        is_removed(leaf.paths[controller])
        if controller not in proven:
            with contextlib.suppress(OSError):
                os.rmdir(parent)
    return Trees(trees.is_v2, proven)


def _joins(leaf: Leaf) -> bool:
    """Whether a process can enter; tried with a new process, which need not come back out."""
    child = os.fork()
    if child == 0:
        try:
            leaf.enter()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def enable_v2(parent: str) -> list[str]:
    """Enables the available controllers below `parent` (v2); returns which are enabled now."""
    with contextlib.suppress(OSError):
        available = read(f"{parent}/cgroup.controllers").split()
        for controller in (name for name in LIMITED if name in available):
            with contextlib.suppress(OSError):
                write(f"{parent}/cgroup.subtree_control", f"+{controller}")
        enabled = read(f"{parent}/cgroup.subtree_control").split()
        return [controller for controller in LIMITED if controller in enabled]
    return []


def disk_of(folder: str) -> str:
    """ "major:minor" of the disk below a folder; "" without one whose operations could be counted."""
    number = os.stat(folder).st_dev
    if not os.major(number):
        return ""  # memory, an overlay, a network
    name = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    try:
        if os.path.exists(f"{name}/partition"):
            return read(f"{os.path.dirname(os.path.realpath(name))}/dev").strip()
        return read(f"{name}/dev").strip()
    except OSError:
        return ""


def read(path: str) -> str:
    """With system calls: a file object costs more than the kernel's work."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = part = os.read(descriptor, 65536)
        while len(part) >= _SHORT_BYTES:
            content += (part := os.read(descriptor, 65536))
    finally:
        os.close(descriptor)
    return content.decode("ascii")


def write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode("ascii"))
    finally:
        os.close(descriptor)


def is_removed(group: str) -> bool:
    """False: something in it lives or is dying, or it has groups below."""
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _below(folder: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        return [entry.path for entry in listing if entry.is_dir(follow_symlinks=False)]
    return []


def _number(path: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(read(path))
    return 0


def _keyed(path: str, key: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in read(path).splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                return int(value)
    return 0
