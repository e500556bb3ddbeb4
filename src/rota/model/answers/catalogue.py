"""Definitions by operators: tiers, categories, lanes, pools, retention."""

from __future__ import annotations

import msgspec


class TierDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Named resources for a task."""

    name: str
    cpu: float = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    iops: int = 0
    gpus: int = 0
    bandwidth_bits: int = 0


class TierList(msgspec.Struct, frozen=True, kw_only=True):
    """All tiers."""

    tiers: list[TierDocument]


class CategoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for a kind of work. null: the category sets no default."""

    name: str
    tolerance_seconds: float | None = None
    lane: str | None = None
    cap_seconds: float | None = None
    isolation: str | None = None


class CategoryList(msgspec.Struct, frozen=True, kw_only=True):
    """All categories."""

    categories: list[CategoryDocument]


class LaneDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A lane. Lower levels are served first; `number` identifies it in tasks and never changes."""

    name: str
    number: int = 0
    level: int = 1
    gated: bool = False
    promotes: bool = True


class LaneList(msgspec.Struct, frozen=True, kw_only=True):
    """All lanes, in the order in which they are served."""

    lanes: list[LaneDocument]


class PoolDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are scheduled together, and the rules that their leader decides by."""

    name: str
    id: int = 0
    elastic: bool = False
    peak_percent: int = 80
    urgent_kept_percent: int = 10
    running_tasks: int | None = None
    paused: bool = False
    isolations: list[str] = []
    identified_nodes: bool = False  # workers with a worker's token are refused


class PausedPool(PoolDocument, frozen=True, kw_only=True):
    """A pool in which nothing starts."""

    may_still_start: int = 0  # at most so many tasks that nodes got before: not all have confirmed the pause


class PoolList(msgspec.Struct, frozen=True, kw_only=True):
    """All pools."""

    pools: list[PoolDocument]


class RetentionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Days after the end; null: for ever."""

    tasks_days: int | None = None
    logs_days: int | None = None
    events_days: int | None = None
    deliveries_days: int | None = None
    audit_days: int | None = None
