"""How long an agent waits before another try."""

from __future__ import annotations

import asyncio
import random

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
