"""One process tree under the keeper: an attempt of a command or script, or a warm child. Its record and how it is
ended.

A unit's tree is known by its control group where it has one, else by parentage, session and the mark in its
environment. A frozen unit is never sent a signal that it could act on: it is killed, or it thaws. Killing the first
process of a sandboxed unit is enough: the kernel ends a process namespace with its init. A container is a child of its
engine, not of ours, and has groups of its own (`UnitContainer`).
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass

from rota.execute.linux import cgroups, process_trees
from rota.execute.linux.cgroup_limits import FREEZER, KILL, Counters, Leaf, Limits
from rota.execute.sandbox.bubblewrap import SANDBOX_PROCESSES
from rota.execute.sandbox.container import NOT_STARTED


@dataclass(slots=True)
class UnitContainer:
    """The container of a unit: its own control groups, and its removal."""

    removal: list[str]  # the argv that removes it, whatever is left of it
    group: Leaf | None = None  # None: the engine limits it
    oom_signal: int | None = None
    oom_seen: int = 0
    cleaner: int = 0  # the process that runs `removal`
    cleanings: int = 0  # how often it was tried

    def processes(self) -> list[int]:
        return [] if self.group is None else cgroups.members(self.group.folders[0])

    def counters(self) -> Counters:
        if self.group is None:
            return Counters()
        counters = self.group.counters(deep=True)
        if self.oom_signal is not None:
            with contextlib.suppress(BlockingIOError):
                self.oom_seen += os.eventfd_read(self.oom_signal)
        return counters._replace(oom_kills=max(counters.oom_kills, self.oom_seen))

    def folders(self) -> list[str]:
        """Folders of its groups, which are about to be removed."""
        if self.oom_signal is not None:
            os.close(self.oom_signal)  # the removal of a group would raise it
            self.oom_signal = None
        return [] if self.group is None else self.group.folders


class Unit:
    def __init__(self, number: int, folder: str, fence_ms: int) -> None:
        self.number = number
        self.folder = folder
        self.fence_ms = fence_ms
        self.is_frozen = False
        self.fenced = False  # killed by the keeper: no trust from the agent for too long, and it can't be frozen
        self.script = False  # Rota put a file into its folder
        self.checkpoint = False  # it has a folder that is kept from attempt to attempt
        self.keeps_folder = False  # the agent still needs the folder
        self.is_plain = False  # no sandbox: it has our own rights
        self.confined = False  # sandboxed
        self.sole_owner: int | None = None  # its own user number, if no other process could reach its folder
        self.leaf: Leaf | None = None
        self.container: UnitContainer | None = None  # then its engine's processes are in `leaf`
        self.signalled = False  # the keeper has sent it a signal to end
        self.killed = False
        self.late = False  # it had memory before it joined its groups, which they will never count
        self.limits = Limits()
        self.peak_bytes = 0  # the most memory seen; 0: not measured
        self.disk_bytes = 0  # limit for its folder; 0: none
        self.left: bool | None = None  # whether the agent must read its folder; None: not decided yet
        self.is_counted_last = False  # its folder is being counted for the last time
        self.main = 0
        self.started_at = 0.0
        self.ended_at = 0.0
        self.usage: tuple[int, int, int] = (0, 0, 0)  # wait status, CPU µs, peak memory bytes
        self.written_bytes = 0
        self.over: tuple[str, int] = ("", 0)  # the exceeded limit, and how much was used

    @property
    def granted_processes(self) -> int:
        """As many as were asked for: the group also allows the sandbox's own processes."""
        return self.limits.pids - (SANDBOX_PROCESSES if self.confined or self.container is not None else 0)

    def processes(self) -> list[int]:
        if self.leaf is not None:
            inside = self.container.processes() if self.container is not None else []
            return [*cgroups.members(self.leaf.folders[0]), *inside]
        if self.confined:
            return [self.main, *process_trees.descendants(self.main)]
        return process_trees.of_attempt(self.main, self.folder)

    def freeze(self) -> bool:
        """Stops the whole tree where it is. False: that is not possible here.

        Of a container only its own processes: its engine may hold a lock that other containers wait for.
        """
        group = self.leaf if self.container is None else self.container.group
        if group is None and self.container is not None:
            return False  # its processes are the engine's, and in groups of the engine
        self.is_frozen = True
        with contextlib.suppress(OSError):
            if (group is not None and group.freeze()) or process_trees.stop_all(self.processes):
                return True
        return False

    def thaw(self) -> None:
        self.is_frozen = False
        group = self.leaf if self.container is None else self.container.group
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if group is None or not group.thaw():
                process_trees.continue_all(self.processes())

    def terminate(self) -> None:
        """SIGTERM. Not to bubblewrap itself: its end would kill everything inside at once."""
        if self.is_frozen:
            self.kill()
            return
        self.signalled = True
        if self.container is not None:  # the engine passes it on to the container's first process
            process_trees.signal_all([] if self.ended_at else [self.main], signal.SIGTERM)
            return
        process_trees.signal_all(
            [process for process in self.processes() if not (self.confined and process == self.main)], signal.SIGTERM
        )

    def kill(self) -> None:
        self.signalled = self.killed = True
        path = None if self.leaf is None else self.leaf.paths.get(KILL)
        if path is not None:
            cgroups.kill(path)
            if self.container is not None and self.container.group is not None:
                cgroups.kill(self.container.group.paths[KILL])
        elif self.is_frozen and self.leaf is not None and FREEZER in self.leaf.paths:
            cgroups.kill(self.leaf.paths[FREEZER])
        elif self.confined and not self.ended_at:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.main, signal.SIGKILL)
        else:
            process_trees.signal_all(self.processes(), signal.SIGKILL)

    def counters(self) -> Counters:
        if self.container is not None:
            return self.container.counters()
        return Counters() if self.leaf is None else self.leaf.counters()

    def remove_leaf(self) -> bool:
        """True when its groups are gone. False: a process in them still lives (or dies); try again shortly."""
        assert self.leaf is not None
        folders = self.leaf.folders
        if self.container is not None:
            folders += self.container.folders()
        return all([cgroups.remove(folder) for folder in folders])

    @property
    def is_clean(self) -> bool:
        """Its engine came to its own end and has removed the container itself."""
        exited = os.WIFEXITED(self.usage[0]) and os.WEXITSTATUS(self.usage[0]) not in NOT_STARTED
        return self.container is None or (exited and not self.signalled)
