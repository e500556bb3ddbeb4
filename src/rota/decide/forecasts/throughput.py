"""How many attempts of each tenant have ended lately: the pace at which a tenant's queue moves.

It already holds the tenant's share, the overhead of every start, and failures. Only estimates for people read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

WINDOW_US = 60_000_000
LEAST_ENDS = 10  # fewer say too little about a pace


@dataclass(slots=True)
class Ended:
    """Ends of the present window, and of the one before it."""

    since_us: int = 0
    counts: dict[int, int] = field(default_factory=dict)  # by tenant
    before: dict[int, int] = field(default_factory=dict)

    def add(self, tenant: int, now_us: int) -> None:
        if now_us - self.since_us >= WINDOW_US:
            self.roll(now_us)
        self.counts[tenant] = self.counts.get(tenant, 0) + 1

    def roll(self, now_us: int) -> None:
        recent = now_us - self.since_us < 2 * WINDOW_US
        self.since_us += WINDOW_US
        if not recent:
            self.since_us = now_us
        self.before, self.counts = (self.counts if recent else {}), {}

    def time_for(self, tenant: int, tasks: int, now_us: int) -> int | None:
        """How long so many tasks of the tenant take at its recent pace; None: too few have ended lately."""
        passed_us = now_us - self.since_us
        if passed_us >= 2 * WINDOW_US:
            return None
        ends = self.counts.get(tenant, 0) + self.before.get(tenant, 0)
        if self.before:
            passed_us += WINDOW_US
        return None if ends < LEAST_ENDS or passed_us <= 0 else tasks * passed_us // ends
