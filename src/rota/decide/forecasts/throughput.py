"""How many attempts of each tenant have ended lately: the pace at which a tenant's queue moves.

It already holds the tenant's share, the overhead of every start, and failures. Only estimates for people read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

WINDOW_US = 60_000_000
LEAST_ENDS = 10  # fewer say too little about a pace


@dataclass(slots=True)
class Ended:
    """Ends of the present window, and of the one before it. Time in which a tenant had nothing to do is left out."""

    since_us: int = 0
    counts: dict[int, int] = field(default_factory=dict)  # by tenant
    before: dict[int, int] = field(default_factory=dict)
    busy_since_us: dict[int, int] = field(default_factory=dict)  # by tenant: the end from which its others are counted

    def add(self, tenant: int, now_us: int) -> None:
        if now_us - self.since_us >= WINDOW_US:
            self.roll(now_us)
        if tenant in self.busy_since_us:
            self.counts[tenant] = self.counts.get(tenant, 0) + 1
        else:
            self.busy_since_us[tenant] = now_us

    def idle(self, tenant: int) -> None:
        """The tenant has nothing that waits or runs: its next tasks have a pace of their own."""
        if self.busy_since_us.pop(tenant, None) is not None:
            self.counts.pop(tenant, None)
            self.before.pop(tenant, None)

    def roll(self, now_us: int) -> None:
        recent = now_us - self.since_us < 2 * WINDOW_US
        self.since_us += WINDOW_US
        if not recent:
            self.since_us = now_us
        self.before, self.counts = (self.counts if recent else {}), {}
        self.busy_since_us = {tenant: at_us for tenant, at_us in self.busy_since_us.items() if tenant in self.before}

    def time_for(self, tenant: int, tasks: int, now_us: int) -> int | None:
        """How long so many tasks of the tenant take at its recent pace; None: too few have ended lately."""
        passed_us = now_us - self.since_us
        if passed_us >= 2 * WINDOW_US:
            return None
        ends = self.counts.get(tenant, 0) + self.before.get(tenant, 0)
        if self.before:
            passed_us += WINDOW_US
        passed_us = min(passed_us, now_us - self.busy_since_us.get(tenant, now_us))
        return None if ends < LEAST_ENDS or passed_us <= 0 else tasks * passed_us // ends
