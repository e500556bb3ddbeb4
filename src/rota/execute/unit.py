"""One process tree under the keeper: an attempt of a command or script, or a warm child. Its record and its ending.

A unit's tree is known by its control group where it has one, else by parentage, session and the mark in its
environment. A confined unit is killed by its first process already: the kernel ends a process namespace with its init.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal

from rota.execute import cgroups, trees
from rota.execute.controllers import KILL, Counters, Leaf, Limits


class Unit:
    __slots__ = (
        "confined",
        "disk_bytes",
        "ended_at",
        "fence_ms",
        "fenced",
        "folder",
        "late",
        "leaf",
        "limits",
        "main",
        "number",
        "over",
        "script",
        "started_at",
        "trouble",
        "usage",
        "written_bytes",
    )

    def __init__(self, number: int, folder: str, fence_ms: int) -> None:
        self.number = number
        self.folder = folder
        self.fence_ms = fence_ms
        self.fenced = False  # killed here, because the agent was not heard of for too long
        self.script = False
        self.confined = False  # born behind walls
        self.leaf: Leaf | None = None
        self.late = False  # it had memory before it joined its groups, which they will never count
        self.limits = Limits()
        self.disk_bytes = 0  # how much its folder may hold; 0: nobody said
        self.trouble: int | None = None  # where a confined birth tells why it failed
        self.main = 0
        self.started_at = 0.0
        self.ended_at = 0.0
        self.usage: tuple[int, int, int] = (0, 0, 0)  # wait status, CPU µs, peak memory bytes
        self.written_bytes = 0
        self.over: tuple[str, int] = ("", 0)  # the limit it went over, and what it had used

    def processes(self) -> list[int]:
        if self.leaf is not None:
            return cgroups.members(self.leaf.folders[0])
        if self.confined:
            return [self.main, *trees.descendants(self.main)]
        return trees.of_attempt(self.main, self.folder)

    def terminate(self) -> None:
        """Politely. Not to the process that holds the walls up: with it everything inside would be gone at once."""
        trees.signal_all([one for one in self.processes() if not (self.confined and one == self.main)], signal.SIGTERM)

    def kill(self) -> None:
        path = None if self.leaf is None else self.leaf.paths.get(KILL)
        if path is not None:
            cgroups.kill(path)
        elif self.confined and not self.ended_at:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.main, signal.SIGKILL)
        else:
            trees.signal_all(self.processes(), signal.SIGKILL)

    def counters(self) -> Counters:
        return Counters() if self.leaf is None else self.leaf.counters()

    def remove_leaf(self) -> bool:
        """True when its groups are gone. False: something in them still lives (or dies); try again shortly."""
        assert self.leaf is not None
        return all([cgroups.remove(folder) for folder in self.leaf.folders])
