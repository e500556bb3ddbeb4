"""Which attempts this node may let act, and which are frozen because no leader has acknowledged a heartbeat in time.

An attempt that is not trusted any more is frozen, not ended: the database may be away, and then nobody has given it up.
It thaws when a leader acknowledges this node again and still holds it; what the leader's registration does not name was
given up meanwhile and is killed while it is frozen. Nobody tells the attempt. The keeper freezes and thaws processes by
the same rule; this side counts the time, which is no part of the attempt's cap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from rota.execute.attempts.attempt import Attempt, Key
from rota.model.fence import NEVER, Fence

DEFAULT_LIMIT_SECONDS = 3600.0


class TrustedAttempts:
    def __init__(self, clock: Callable[[], float], *, frozen_limit_seconds: float) -> None:
        """`frozen_limit_seconds`: how long an attempt stays frozen if no leader says what has become of it."""
        self._clock = clock
        self._frozen_limit_seconds = frozen_limit_seconds
        self._fence: Fence[Attempt] = Fence(clock())
        self._frozen: dict[Attempt, None] = {}

    @property
    def trusted_at(self) -> float:
        return self._fence.trusted_at

    @property
    def frozen_count(self) -> int:
        return len(self._frozen)

    def frozen_keys(self) -> list[Key]:
        return [attempt.key for attempt in self._frozen]

    def add(self, attempt: Attempt) -> None:
        self._fence.add(attempt, attempt.fence_ms)

    def discard(self, attempt: Attempt) -> None:
        """It has ended, or is being killed."""
        self._fence.discard(attempt, attempt.fence_ms)
        self._frozen.pop(attempt, None)

    def next_at(self) -> float:
        """When the next attempt is to be frozen, or has been frozen for too long."""
        frozen_since = min((attempt.frozen_at or 0.0 for attempt in self._frozen), default=NEVER)
        return min(self._fence.next_at(), frozen_since + self._frozen_limit_seconds)

    def past(self) -> list[Attempt]:
        """No longer trusted, not frozen yet."""
        return self._fence.past(self._clock())

    def freeze(self, attempt: Attempt) -> None:
        """It is frozen since its trust ended, however late this agent notices."""
        self._fence.discard(attempt, attempt.fence_ms)
        self._frozen[attempt] = None
        attempt.frozen_at = self._fence.ends_at(attempt.fence_ms)
        attempt.thawed = asyncio.Event()

    def overdue(self) -> list[Attempt]:
        """Frozen for longer than the limit."""
        latest = self._clock() - self._frozen_limit_seconds
        return [attempt for attempt in self._frozen if (attempt.frozen_at or 0.0) <= latest]

    def given_up(self, expected: Iterable[Key]) -> list[Attempt]:
        """Frozen, and not among the attempts that the leader still holds."""
        held = frozenset(expected)
        return [attempt for attempt in self._frozen if attempt.key not in held]

    def trust(self, sent_at: float) -> list[Attempt]:
        """A leader has acknowledged what was sent then; returns the attempts that thaw.

        It holds all that are left here: its registration has named them.
        """
        self._fence.trust(sent_at)
        now = self._clock()
        thawed = [attempt for attempt in self._frozen if now < self._fence.ends_at(attempt.fence_ms)]
        for attempt in thawed:
            del self._frozen[attempt]
            attempt.frozen_seconds = attempt.frozen_for(now)
            attempt.frozen_at = None
            self.add(attempt)
        return thawed


async def until_thawed(attempt: Attempt) -> None:
    """Returns at once unless it is frozen: work that this agent does for it waits, like its processes."""
    while attempt.frozen_at is not None and attempt.thawed is not None:
        await attempt.thawed.wait()
