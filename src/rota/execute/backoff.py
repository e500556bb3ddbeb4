"""How long an agent waits before another try."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

_MOST_DOUBLINGS = 8


class Backoff:
    """Random pauses whose upper bound doubles with every try, from `first_seconds` to `longest_seconds`."""

    def __init__(self, *, shortest_seconds: float, first_seconds: float, longest_seconds: float) -> None:
        self._shortest_seconds = shortest_seconds
        self._first_seconds = first_seconds
        self.longest_seconds = longest_seconds
        self._tries = 0

    def reset(self) -> None:
        self._tries = 0

    async def pause(self) -> None:
        bound_seconds = min(self.longest_seconds, self._first_seconds * 2 ** min(self._tries, _MOST_DOUBLINGS))
        self._tries += 1
        await asyncio.sleep(random.uniform(self._shortest_seconds, bound_seconds))


class Patience:
    """How long nothing has answered. Counted only while the agent has a leader: without one, nobody could."""

    def __init__(self, seconds: float, has_leader: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._has_leader = has_leader
        self._since = time.monotonic()

    def renew(self) -> None:
        self._since = time.monotonic()

    def is_over(self) -> bool:
        """Ask after every try: a time without a leader is noticed then."""
        if not self._has_leader():
            self.renew()
        return time.monotonic() - self._since > self._seconds


def always() -> bool:
    """For an agent of which nobody knows whether it has a leader."""
    return True
