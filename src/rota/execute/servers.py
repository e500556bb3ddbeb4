"""Which server node the agent tries next, and how long it waits before another try.

Any server node will do for everything but the control connection, which asks one for its leader. Each user has a
rotation of its own and begins at a random server, so that agents spread over all of them.
"""

from __future__ import annotations

import asyncio
import random

_MOST_DOUBLINGS = 8


class Servers:
    def __init__(self, urls: tuple[str, ...]) -> None:
        self._urls = urls
        self._turn = random.randrange(len(urls))

    @property
    def current(self) -> str:
        return self._urls[self._turn % len(self._urls)]

    def advance(self) -> None:
        """The current server has failed: on to the next one."""
        self._turn += 1

    def take(self) -> str:
        """The current server; the next try gets the next one."""
        server = self.current
        self.advance()
        return server


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
