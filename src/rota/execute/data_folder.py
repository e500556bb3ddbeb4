"""The data folder: used by one agent at a time, and cleared of a previous agent's
leftovers before this one connects.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import structlog

from rota.execute.keeper import reachable_folders, spare_folders
from rota.execute.linux import cgroups, process_trees, work_folder

log = structlog.get_logger()


class DataFolderInUse(RuntimeError):
    """Another agent runs on this data folder."""


def lock(data: Path) -> int:
    """A descriptor that locks the folder while it is open; the kernel unlocks it when this process ends."""
    data.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(data / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DataFolderInUse(f"another agent is running on {data}; give this one its own data folder") from None
    return descriptor


def sweep(data: Path) -> Path:
    """Ends the processes and removes the files of a previous agent; returns the folder for work.

    Processes first (also the old keeper, which would remove what we are about to make), then cgroups, then files. May
    take a while after a crash: run it in a thread.
    """
    work = data.resolve() / "work"
    for parent in cgroups.existing_parents(data):
        cgroups.kill(parent)  # also thaws: a frozen process of a v1 group dies only then
    if not process_trees.kill_marked(str(work), below=True, patience_seconds=10):
        log.error("processes of a previous agent could not be ended", folder=str(work))
    for parent in cgroups.existing_parents(data):
        if not cgroups.sweep(parent, patience_seconds=10):
            log.error("cgroups of a previous agent could not be removed", cgroup=parent)
    reachable_folders.clear(cgroups.parent_name(data))
    for folder in (str(work), spare_folders.folder_of(str(work))):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        work_folder.remove_all_below(folder)
    return work
