"""What this node has learned about how long each function runs:

an exponentially weighted mean, bounded in number.
"""

from __future__ import annotations

UNKNOWN = float("inf")
_WEIGHT = 0.2
_REMEMBERED = 10_000


class RunTimes:
    def __init__(self) -> None:
        self._mean_us: dict[tuple[int, str], float] = {}

    def mean_us(self, tenant: int, name: str) -> float:
        return self._mean_us.get((tenant, name), UNKNOWN)

    def learn(self, tenant: int, name: str, run_us: float) -> None:
        key = (tenant, name)
        mean = self._mean_us.get(key)
        if mean is not None:
            self._mean_us[key] = mean + _WEIGHT * (run_us - mean)
            return
        if len(self._mean_us) >= _REMEMBERED:
            del self._mean_us[next(iter(self._mean_us))]
        self._mean_us[key] = run_us
