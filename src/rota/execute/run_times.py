"""What this node has learned about how long each function runs:

an exponentially weighted mean, bounded in number.
"""

from __future__ import annotations

from collections import OrderedDict

UNKNOWN = float("inf")
_WEIGHT = 0.2
_REMEMBERED = 10_000


class RunTimes:
    def __init__(self) -> None:
        self._mean_us: OrderedDict[tuple[int, str], float] = OrderedDict()

    def mean_us(self, tenant: int, name: str) -> float:
        return self._mean_us.get((tenant, name), UNKNOWN)

    def learn(self, tenant: int, name: str, run_us: float) -> None:
        key = (tenant, name)
        mean = self._mean_us.get(key)
        if mean is not None:
            self._mean_us[key] = mean + _WEIGHT * (run_us - mean)
            return
        if len(self._mean_us) >= _REMEMBERED:
            self._mean_us.popitem(last=False)
        self._mean_us[key] = run_us
