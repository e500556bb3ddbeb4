"""Finds the unit of a process that has lost its parent.

The keeper is the subreaper of everything it started: a survivor of a dead process is the keeper's own child, or below
one. Units without a control group are cleared this way.
"""

from __future__ import annotations

import contextlib
import os
import signal

from rota.execute.keeper.unit import Unit
from rota.execute.linux import process_trees


class Orphans:
    def __init__(self, by_process: dict[int, Unit]) -> None:
        self._by_process = by_process  # the keeper's own: the first process of each running unit
        # The keeper has one thread, so one file lists all its children; kept open, it is read in one call.
        self._listing = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)

    def clear(self, unit: Unit) -> bool:
        """Kills the survivors of a unit whose first process has ended; whether there were none."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(unit.main, signal.SIGKILL)
        orphans = self._all()
        if not orphans:
            return True
        mine = set(process_trees.of_attempt(unit.main, unit.folder))
        unclaimed = [orphan for orphan in orphans if orphan not in mine and self._claimant(orphan) is None]
        process_trees.signal_all([*mine, *unclaimed], signal.SIGKILL)
        return not mine and not unclaimed

    def tree_of(self, unit: Unit) -> list[int]:
        """All processes of a running unit, as far as they can be told from others."""
        tree = dict.fromkeys([unit.main, *process_trees.descendants(unit.main)])
        for orphan in self._all():
            if self._claimant(orphan) is unit:
                tree |= dict.fromkeys([orphan, *process_trees.descendants(orphan)])
        return list(tree)

    def _all(self) -> list[int]:
        listing = b""
        while len(part := os.pread(self._listing, 65536, len(listing))) > 0:
            listing += part
        return [child for word in listing.split() if (child := int(word)) not in self._by_process]

    def _claimant(self, orphan: int) -> Unit | None:
        """The running unit of an orphan: by its session, its mark, or its cgroup."""
        with contextlib.suppress(OSError):
            unit = self._by_process.get(os.getsid(orphan))
            if unit is not None:
                return unit
            with open(f"/proc/{orphan}/environ", "rb") as environ:
                content = environ.read()
            with open(f"/proc/{orphan}/cgroup") as listing:
                groups = listing.read()
            for unit in self._by_process.values():
                if any(mark in content for mark in process_trees.marks_of(unit.folder)):
                    return unit
                if unit.leaf is not None and f"/{os.path.basename(unit.leaf.folders[0])}\n" in groups:
                    return unit
        return None
