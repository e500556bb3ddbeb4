"""How long each function runs on this node: an exponentially weighted mean, bounded in number.

For a new name it uses the mean of the tenant's calls: in a graph each task has its own name, and the leader sends only
calls here early that it expects to be short.
"""

from __future__ import annotations

from collections import OrderedDict

UNKNOWN = float("inf")
_WEIGHT = 0.2
_REMEMBERED = 10_000
_ANY = ""  # no function's name


class RunTimes:
    def __init__(self) -> None:
        self._mean_us: OrderedDict[tuple[int, str], float] = OrderedDict()

    def mean_us(self, tenant: int, name: str) -> float:
        mean = self._mean_us.get((tenant, name))
        return self._mean_us.get((tenant, _ANY), UNKNOWN) if mean is None else mean

    def learn(self, tenant: int, name: str, run_us: float) -> None:
        if not self._learn((tenant, name), run_us):
            self._learn((tenant, _ANY), run_us)

    def _learn(self, key: tuple[int, str], run_us: float) -> bool:
        """Whether it was known before."""
        mean = self._mean_us.get(key)
        if mean is not None:
            self._mean_us[key] = mean + _WEIGHT * (run_us - mean)
            return True
        if len(self._mean_us) >= _REMEMBERED:
            self._mean_us.popitem(last=False)
        self._mean_us[key] = run_us
        return False
