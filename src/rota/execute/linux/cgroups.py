"""This agent's control groups, and killing what is in them: one parent per agent, one leaf per unit.

Only a v2 tree can kill a whole tree of processes, however they forked, without a race. Limits may be in the same tree
or, on older layouts, in v1 trees beside it (`cgroup_limits.py`). Where nothing can be written (no mount, no right),
`process_trees.py` walks /proc instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from pathlib import Path

from rota.execute.linux import cgroup_limits, process_trees
from rota.execute.linux.cgroup_limits import FREEZER, KILL, Trees

_AGENT_WEIGHT = "1000"  # against 100 of the group with all tasks: these may use all idle CPU


def open_groups(data: Path, *, agent: int, device: str) -> Trees:
    """Makes the parents for the agent on this data folder, each proven to work; without any, /proc is used."""
    name = parent_name(data)
    parents: dict[str, str] = {}
    home = _own_group()
    kill_parent = None
    if home is not None:
        kill_parent = _open_v2(f"{home}/{name}")
    if home is not None and kill_parent is not None:
        enabled = _enable(home, kill_parent, agent)
        if enabled:
            proven = cgroup_limits.prove(Trees(True, dict.fromkeys(enabled, kill_parent)), device=device)
            if proven.parents:
                return Trees(True, {KILL: kill_parent, **proven.parents})
        parents[KILL] = kill_parent
    v1 = {controller: f"{folder}/{name}" for controller, folder in _v1_homes().items()}
    if KILL in parents:
        v1.pop(FREEZER, None)  # a v2 tree freezes as well
    proven = cgroup_limits.prove(Trees(False, v1), device=device)
    return Trees(False, {**parents, **proven.parents})


def open_container_groups(data: Path, trees: Trees, *, device: str) -> tuple[Trees, str]:
    """The parents of containers' groups, and the path by which an engine finds them in every hierarchy.

    Mostly the same folders as `trees`. Where this process lies in different groups of different v1 hierarchies: those
    at its path in the v2 tree. An empty path: there are no groups that an engine could use.
    """
    home, name = _own_path(), parent_name(data)
    if KILL not in trees.parents or home is None:
        return Trees(True, {}), ""
    path = os.path.normpath(f"/{home}/{name}")
    if trees.is_v2:
        return trees, path
    parents = cgroup_limits.container_parents(Path("/proc/self/mountinfo").read_text(), home, name)
    same = {key: folder for key, folder in parents.items() if trees.parents.get(key) == folder}
    other = {key: folder for key, folder in parents.items() if key in trees.parents and key not in same}
    proven = cgroup_limits.prove(Trees(False, other), device=device)
    # Engines make groups in every hierarchy. They use those that exist; we remove those that we made.
    unused = {key: folder for key, folder in parents.items() if key not in trees.parents and _made(folder)}
    return Trees(False, {KILL: trees.parents[KILL], **same, **proven.parents, **unused}), path


def _made(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    return True


def _open_v2(parent: str) -> str | None:
    try:
        os.makedirs(parent, exist_ok=True)
        if os.path.exists(f"{parent}/cgroup.kill"):
            return cgroup_limits.prove(Trees(True, {KILL: parent}), device="").parents.get(KILL)
    except OSError:
        return None
    remove(parent)
    return None


def _enable(home: str, parent: str, agent: int) -> list[str]:
    """The v2 controllers that leaves below `parent` can use.

    A group that hands controllers down may hold no processes itself; if only the agent and the keeper are in it, they
    move aside, into a group that comes before the tasks. In v1 and in a root group they need none: every process there
    weighs as much as the group with all tasks.
    """
    if not cgroup_limits.enable_v2(home):
        if not set(members(home)) <= {agent, os.getpid()}:
            return []
        aside = f"{parent}-agent"
        with contextlib.suppress(OSError):
            os.makedirs(aside, exist_ok=True)
            for process in (agent, os.getpid()):
                move(aside, process)
        if not cgroup_limits.enable_v2(home):
            return []
        with contextlib.suppress(OSError):  # there is no such controller here
            cgroup_limits.write(f"{aside}/cpu.weight", _AGENT_WEIGHT)
    return cgroup_limits.enable_v2(parent)


def existing_parents(data: Path) -> list[str]:
    """The parents that a previous agent on this data folder left behind."""
    homes = [home for home in (_own_group(), *_v1_homes().values()) if home is not None]
    paths = [f"{home}/{parent_name(data)}" for home in homes]
    own = _own_path()
    if own is not None:
        paths += cgroup_limits.container_parents(
            Path("/proc/self/mountinfo").read_text(), own, parent_name(data)
        ).values()
    return [path for path in dict.fromkeys(paths) if os.path.isdir(path)]


def _v1_homes() -> dict[str, str]:
    try:
        return cgroup_limits.find_v1(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return {}


def parent_name(data: Path) -> str:
    digest = hashlib.blake2b(os.fsencode(data.resolve()), digest_size=6).hexdigest()
    return f"rota-{digest}"


def move(path: str, process: int) -> None:
    """Later forks of the process start there. A process that has just ended is no error."""
    with contextlib.suppress(ProcessLookupError):
        cgroup_limits.write(f"{path}/cgroup.procs", str(process))


def kill(path: str) -> None:
    """SIGKILL to every process in the subtree; in a v2 tree also to those being forked at this moment."""
    try:
        cgroup_limits.write(f"{path}/cgroup.kill", "1")
    except (FileNotFoundError, PermissionError):  # a v1 tree, or gone
        process_trees.signal_all(members(path), signal.SIGKILL)
        for folder, _, _ in os.walk(path):  # frozen processes die when they thaw, before they do anything else
            with contextlib.suppress(OSError):
                cgroup_limits.write(f"{folder}/freezer.state", "THAWED")


def members(path: str) -> list[int]:
    """Every process in the cgroup and below it (a task may make cgroups of its own)."""
    processes: list[int] = []
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            with open(f"{folder}/cgroup.procs") as listing:
                processes += [int(line) for line in listing]
    return processes


def remove(path: str) -> bool:
    """True when the cgroup is gone. False: something in it still lives (or dies); try again shortly."""
    return cgroup_limits.is_removed(path) or _remove_nested(path)


def sweep(path: str, patience_seconds: float = 5.0) -> bool:
    """Kills and removes the whole tree at `path`; for start-up and for the keeper's end, where waiting is fine."""
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
    return cgroup_limits.is_removed(path)


def _own_group() -> str | None:
    with contextlib.suppress(OSError):
        mount, _ = cgroup_limits.mounts_of(Path("/proc/self/mountinfo").read_text())
        own = _own_path()
        if mount is not None and own is not None:
            return os.path.normpath(mount + own)
    return None


def _own_path() -> str | None:
    """This process's group in the v2 tree."""
    with contextlib.suppress(OSError):
        return cgroup_limits.own_groups(Path("/proc/self/cgroup").read_text()).get("")
    return None
