"""What operators define for everybody: tiers, categories, lanes, pools. Values only; rows are the truth."""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.isolation import ISOLATIONS


@dataclass(frozen=True, slots=True)
class Tier:
    """Amounts for clients who can't put numbers on their needs."""

    name: str
    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    iops: int = 0
    gpus: int = 0
    bandwidth_kbit: int = 0


@dataclass(frozen=True, slots=True)
class Category:
    """Defaults for a kind of work. None: it says nothing about that."""

    name: str
    tolerance_ms: int | None = None
    lane: str | None = None
    cap_ms: int | None = None
    isolation: str | None = None  # kept for later


@dataclass(frozen=True, slots=True)
class LaneRule:
    """A lane as data. Lanes of one level are served together, lower levels first."""

    number: int  # tasks carry it; it never changes
    name: str
    level: int = 1
    gated: bool = False  # runs only while the pool is below its peak mark
    promotes: bool = True  # its tasks become urgent when a given tolerance runs out


@dataclass(frozen=True, slots=True)
class PoolRule:
    id: int
    name: str
    elastic: bool = False  # nodes may come: nothing is refused for being too large
    peak_percent: int = 80  # above it, gated lanes wait and some room is kept for urgent work
    urgent_kept_percent: int = 10
    running_tasks: int | None = None  # None: no limit
    paused: bool = False  # nothing new starts there
    isolations: tuple[str, ...] = ISOLATIONS  # what its tasks may be kept apart by


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many days ended things are kept; None: for ever."""

    tasks_days: int | None  # with their attempts
    logs_days: int | None
    events_days: int | None
    deliveries_days: int | None


MOST_DAYS = 36_500  # of a retention
DEFAULT_LANES = (
    LaneRule(0, "urgent", level=0),
    LaneRule(1, "normal"),
    LaneRule(2, "periodic"),
    LaneRule(3, "off-peak", level=2, gated=True),
)
