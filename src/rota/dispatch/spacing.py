"""Keeps batches apart in a steady flow, so that a trickle of results doesn't cost a flush each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Spacing:
    """The pause grows with the size of the last batch: above 500 rows a second it has its full length.

    Below that, and after a quiet moment, there is none. `ENOUGH` rows end it early.
    """

    STARTS = 0.008  # a slot may be idle meanwhile
    RESULTS = 0.02  # no slot waits for a settlement
    A_ROW = 0.002
    ENOUGH = 256

    def __init__(
        self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]], longest_seconds: float
    ) -> None:
        self._longest_seconds = longest_seconds
        self._clock = clock
        self._sleep = sleep
        self._next = 0.0

    async def wait(self, rows: Callable[[], int]) -> None:
        while (pause := self._next - self._clock()) > 0 and rows() < self.ENOUGH:
            await self._sleep(min(pause, self.A_ROW))

    def mark(self, rows: int) -> None:
        """A batch of so many rows was written just now."""
        self._next = self._clock() + min(self._longest_seconds, rows * self.A_ROW)
