"""Freezes units whose trust has run out, and thaws them when the agent is trusted again.

The agent sends "trust" for every heartbeat that a leader acknowledged, and "kill" for units that were given up, in this
order: so a unit that was given up is dead before the others thaw. A unit that can't be frozen is killed instead. The
deadline is `model/fence.py`'s; the agent counts by the same rule and sends no order for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rota.execute.keeper.unit import Unit
from rota.model.fence import Fence


class Freezing:
    def __init__(self, join_group: Callable[[Unit], None]) -> None:
        """`join_group` moves a unit that has just started into its control group, which freezes it without a gap."""
        self._join_group = join_group
        self._fence: Fence[Unit] = Fence(time.monotonic())
        self._frozen: dict[Unit, None] = {}
        self.next_at = self._fence.next_at

    def add(self, unit: Unit) -> None:
        if unit.fence_ms:
            self._fence.add(unit, unit.fence_ms)

    def discard(self, unit: Unit) -> None:
        self._fence.discard(unit, unit.fence_ms)
        self._frozen.pop(unit, None)

    def change(self, unit: Unit, fence_ms: int) -> None:
        """The unit runs calls with another fence now."""
        self._fence.discard(unit, unit.fence_ms)
        unit.fence_ms = fence_ms
        if unit in self._frozen:
            self._thaw_trusted()
        else:
            self.add(unit)

    def trust(self, sent_at: float) -> None:
        self._fence.trust(sent_at)
        self._thaw_trusted()

    def enforce(self) -> None:
        now = time.monotonic()
        if now < self._fence.next_at():
            return
        for unit in self._fence.past(now):
            self._fence.discard(unit, unit.fence_ms)
            self._freeze(unit)

    def _freeze(self, unit: Unit) -> None:
        if unit.ended_at or unit.killed:
            return  # it is about to be gone
        if unit.is_plain and unit.leaf is None:
            self._join_group(unit)
        if unit.freeze():
            self._frozen[unit] = None
        else:
            unit.fenced = True
            unit.kill()

    def _thaw_trusted(self) -> None:
        now = time.monotonic()
        for unit in list(self._frozen):
            if not unit.fence_ms or now < self._fence.ends_at(unit.fence_ms):
                del self._frozen[unit]
                if not unit.killed:
                    unit.thaw()
                    self.add(unit)
