"""One process tree under the keeper: an attempt of a command or script, or a warm child. Its record and its ending.

A unit's tree is known by its control group where it has one, else by parentage, session and the mark in its
environment. A confined unit is killed by its first process already: the kernel ends a process namespace with its init.
A container is the child of its engine, not of ours, and lies in groups of its own (`box`).
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal

from rota.execute.linux import cgroups, process_trees
from rota.execute.linux.cgroup_limits import KILL, Counters, Leaf, Limits
from rota.execute.sandbox.bubblewrap import SANDBOX_PROCESSES
from rota.execute.sandbox.container import NOT_STARTED


class Unit:
    __slots__ = (
        "checkpoint",
        "cleaner",
        "cleanings",
        "confined",
        "container_group",
        "disk_bytes",
        "ended_at",
        "fence_ms",
        "fenced",
        "folder",
        "is_counted_last",
        "is_plain",
        "keeps_folder",
        "late",
        "leaf",
        "left",
        "limits",
        "main",
        "number",
        "oom_seen",
        "oom_signal",
        "over",
        "peak_bytes",
        "removal",
        "script",
        "signalled",
        "sole_owner",
        "started_at",
        "usage",
        "written_bytes",
    )

    def __init__(self, number: int, folder: str, fence_ms: int) -> None:
        self.number = number
        self.folder = folder
        self.fence_ms = fence_ms
        self.fenced = False  # killed here, because the agent was not heard of for too long
        self.script = False  # Rota put a file into its folder
        self.checkpoint = False  # it has a folder that is kept over attempts
        self.keeps_folder = False  # whoever made it still needs it
        self.is_plain = False  # a process like any other, with our own rights
        self.confined = False  # born behind walls
        self.sole_owner: int | None = None  # its own user number, if no other could get at its folder
        self.leaf: Leaf | None = None
        self.container_group: Leaf | None = (
            None  # the groups a container is born in; its engine's processes are in `leaf`
        )
        self.removal: list[str] = []  # the argv that removes its container, whatever is left of it; []: it has none
        self.cleaner = 0  # the process that does so
        self.cleanings = 0  # how often it was tried
        self.signalled = False  # we have told it to end
        self.oom_signal: int | None = None
        self.oom_seen = 0
        self.late = False  # it had memory before it joined its groups, which they will never count
        self.limits = Limits()
        self.peak_bytes = 0  # the most memory it was seen with; 0: nobody looked
        self.disk_bytes = 0  # how much its folder may hold; 0: nobody said
        self.left: bool | None = None  # whether its folder is for the agent to look through; None: it was not put away
        self.is_counted_last = False  # its folder is being counted for the last time
        self.main = 0
        self.started_at = 0.0
        self.ended_at = 0.0
        self.usage: tuple[int, int, int] = (0, 0, 0)  # wait status, CPU µs, peak memory bytes
        self.written_bytes = 0
        self.over: tuple[str, int] = ("", 0)  # the limit it went over, and what it had used

    @property
    def granted_processes(self) -> int:
        """As many as were asked for: its group has room for those of its walls besides."""
        return self.limits.pids - (SANDBOX_PROCESSES if self.confined or self.removal else 0)

    def processes(self) -> list[int]:
        if self.leaf is not None:
            inside = cgroups.members(self.container_group.folders[0]) if self.container_group is not None else []
            return [*cgroups.members(self.leaf.folders[0]), *inside]
        if self.confined:
            return [self.main, *process_trees.descendants(self.main)]
        return process_trees.of_attempt(self.main, self.folder)

    def terminate(self) -> None:
        """Politely. Not to the process that holds the walls up: with it everything inside would be gone at once."""
        self.signalled = True
        if self.removal:  # the engine hands it on to the container's first process, as its users expect
            process_trees.signal_all([] if self.ended_at else [self.main], signal.SIGTERM)
            return
        process_trees.signal_all(
            [one for one in self.processes() if not (self.confined and one == self.main)], signal.SIGTERM
        )

    def kill(self) -> None:
        self.signalled = True
        path = None if self.leaf is None else self.leaf.paths.get(KILL)
        if path is not None:
            cgroups.kill(path)
            if self.container_group is not None:
                cgroups.kill(self.container_group.paths[KILL])
        elif self.confined and not self.ended_at:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.main, signal.SIGKILL)
        else:
            process_trees.signal_all(self.processes(), signal.SIGKILL)

    def counters(self) -> Counters:
        if self.removal:
            return Counters() if self.container_group is None else self._container_counters(self.container_group)
        return Counters() if self.leaf is None else self.leaf.counters()

    def _container_counters(self, container_group: Leaf) -> Counters:
        counters = container_group.counters(deep=True)
        if self.oom_signal is not None:
            with contextlib.suppress(BlockingIOError):
                self.oom_seen += os.eventfd_read(self.oom_signal)
        return counters._replace(oom_kills=max(counters.oom_kills, self.oom_seen))

    def remove_leaf(self) -> bool:
        """True when its groups are gone. False: something in them still lives (or dies); try again shortly."""
        assert self.leaf is not None
        if self.oom_signal is not None:
            os.close(self.oom_signal)  # a group that goes would raise it
            self.oom_signal = None
        folders = [*self.leaf.folders, *(self.container_group.folders if self.container_group is not None else ())]
        return all([cgroups.remove(folder) for folder in folders])

    @property
    def is_clean(self) -> bool:
        """Its engine came to its own end and has removed the container itself."""
        exited = os.WIFEXITED(self.usage[0]) and os.WEXITSTATUS(self.usage[0]) not in NOT_STARTED
        return not self.removal or (exited and not self.signalled)
