"""Which GPU an attempt gets, kept in thousandths of each device. Pure.

A task asks for whole devices or for a fraction of one. Fractions go where the least is left beside them, so that whole
devices stay whole; the leader counts by the same rule.
"""

from __future__ import annotations

_WHOLE = 1000


class Devices:
    def __init__(self, count: int) -> None:
        self._free = [_WHOLE] * count

    def take(self, gpus: int, milli: int) -> tuple[int, ...] | None:
        """So many whole devices, or so many thousandths of one; None when no device has them."""
        if gpus:
            whole = [device for device, left in enumerate(self._free) if left == _WHOLE][:gpus]
            found = tuple(whole) if len(whole) == gpus else None
        else:
            fitting = [(left, device) for device, left in enumerate(self._free) if left >= milli]
            found = (min(fitting)[1],) if fitting else None
        for device in found or ():
            self._free[device] -= milli or _WHOLE
        return found

    def give_back(self, devices: tuple[int, ...], milli: int) -> None:
        for device in devices:
            self._free[device] += milli or _WHOLE
            assert self._free[device] <= _WHOLE, f"more of GPU {device} was given back than it has"
