"""Self-fencing: how long a node may let an attempt act without an acknowledged heartbeat. Pure.

Another node may get an attempt once its grace is over, so here it must not act any more: from shortly before its fence
on, counted on the monotonic clock from the *sending* of the last acknowledged heartbeat, it is frozen. The keeper
freezes its processes, even if the agent is stopped; the agent counts the time by the same rule.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

NEVER = float("inf")

Member = TypeVar("Member", bound=Hashable)


def freeze_seconds(fence_ms: int) -> float:
    """When to freeze, counted from the last acknowledged heartbeat: a little before the fence."""
    fence = fence_ms / 1000
    return fence - min(0.5, fence / 10)


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

    def ends_at(self, fence_ms: int) -> float:
        """When trust in attempts with this fence ends."""
        return self.trusted_at + freeze_seconds(fence_ms)

    def next_at(self) -> float:
        """When trust in the first member ends."""
        for empty in [fence for fence, group in self._members.items() if not group]:
            del self._members[empty]
        return self.ends_at(min(self._members)) if self._members else NEVER

    def past(self, now: float) -> list[Member]:
        """The members that are not trusted any more."""
        return [
            member for fence, group in sorted(self._members.items()) if now >= self.ends_at(fence) for member in group
        ]
