"""Self-fencing: how long a node may keep an attempt without an acknowledged heartbeat. Pure.

Another node may get an attempt once its grace is over, so here it must have ended before: within its fence, counted on
the monotonic clock from the *sending* of the last acknowledged heartbeat. The agent sends TERM at the soft deadline;
the keeper kills at the hard one, even if the agent is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

NEVER = float("inf")

Member = TypeVar("Member", bound=Hashable)


def hard_seconds(fence_ms: int) -> float:
    """When to KILL, counted from the last acknowledged heartbeat: a little before the fence."""
    fence = fence_ms / 1000
    return fence - min(0.5, fence / 10)


def soft_seconds(fence_ms: int, kill_grace_seconds: float) -> float:
    """When to TERM, so that a full grace (or a quarter of the fence, if shorter) is left before the KILL."""
    return hard_seconds(fence_ms) - min(kill_grace_seconds, fence_ms / 4000)


class Fence(Generic[Member]):
    """Members by the length of their fence. There are few lengths, so finding the next deadline is cheap."""

    def __init__(self, trusted_at: float) -> None:
        self.trusted_at = trusted_at
        self._members: dict[int, dict[Member, None]] = {}

    def add(self, member: Member, fence_ms: int) -> None:
        group = self._members.get(fence_ms)
        if group is None:
            group = self._members[fence_ms] = {}
        group[member] = None

    def discard(self, member: Member, fence_ms: int) -> None:
        group = self._members.get(fence_ms)
        if group is not None:
            group.pop(member, None)

    def trust(self, sent_at: float) -> None:
        """A heartbeat sent then was acknowledged. A late, older acknowledgement changes nothing."""
        self.trusted_at = max(self.trusted_at, sent_at)

    def next_soft(self, kill_grace_seconds: float) -> float:
        shortest = self._shortest()
        return NEVER if shortest is None else self.trusted_at + soft_seconds(shortest, kill_grace_seconds)

    def next_hard(self) -> float:
        shortest = self._shortest()
        return NEVER if shortest is None else self.trusted_at + hard_seconds(shortest)

    def past_soft(self, now: float, kill_grace_seconds: float) -> list[Member]:
        return self._past(lambda fence: soft_seconds(fence, kill_grace_seconds), now)

    def past_hard(self, now: float) -> list[Member]:
        return self._past(hard_seconds, now)

    def _shortest(self) -> int | None:
        for empty in [fence for fence, group in self._members.items() if not group]:
            del self._members[empty]
        return min(self._members, default=None)

    def _past(self, seconds_of: Callable[[int], float], now: float) -> list[Member]:
        return [
            member
            for fence, group in sorted(self._members.items())
            if now >= self.trusted_at + seconds_of(fence)
            for member in group
        ]
