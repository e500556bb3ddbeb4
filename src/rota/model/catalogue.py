"""What operators define: tiers, categories, lanes, pools, retention. The rows in the database are the truth."""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.isolation import ISOLATIONS


@dataclass(frozen=True, slots=True)
class Tier:
    """Named amounts of resources."""

    name: str
    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    iops: int = 0
    gpus: int = 0
    bandwidth_kbit: int = 0


@dataclass(frozen=True, slots=True)
class Category:
    """Defaults for a kind of work. None: no default."""

    name: str
    tolerance_ms: int | None = None
    lane: str | None = None
    cap_ms: int | None = None
    isolation: str | None = None


@dataclass(frozen=True, slots=True)
class LaneRule:
    """The rules of a lane. Lanes of one level are served together, lower levels first."""

    number: int  # tasks carry it; it never changes
    name: str
    level: int = 1
    gated: bool = False  # runs only while the pool is below its peak mark
    promotes: bool = True  # its tasks become urgent when a given tolerance runs out


@dataclass(frozen=True, slots=True)
class PoolRule:
    id: int
    name: str
    elastic: bool = False  # nodes may join, so no task is refused for its size
    peak_percent: int = 80  # above it, gated lanes wait and resources are kept for urgent work
    urgent_kept_percent: int = 10
    running_tasks: int | None = None  # None: no limit
    paused: bool = False  # no task starts
    isolations: tuple[str, ...] = ISOLATIONS  # allowed for its tasks
    identified_nodes: bool = False  # nodes without an identity are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many days ended things are kept; None: for ever."""

    tasks_days: int | None  # with their attempts
    logs_days: int | None
    events_days: int | None
    deliveries_days: int | None
    audit_days: int | None = 400  # by whole months


MOST_DAYS = 36_500  # of a retention
DEFAULT_LANES = (
    LaneRule(0, "urgent", level=0),
    LaneRule(1, "normal"),
    LaneRule(2, "periodic"),
    LaneRule(3, "off-peak", level=2, gated=True),
)
