"""How long things are kept after they ended, in days; None means for ever."""

from __future__ import annotations

from dataclasses import dataclass

MOST_DAYS = 36_500


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    tasks_days: int | None  # with their attempts
    logs_days: int | None
    events_days: int | None
    deliveries_days: int | None
