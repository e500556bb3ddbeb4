"""The server's answers about what operators define: tiers, categories, lanes, pools.

The companion of `cluster_documents.py`; the same rules hold.
"""

from __future__ import annotations

import msgspec


class TierDocument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cpu: float = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    iops: int = 0
    gpus: int = 0
    bandwidth_bits: int = 0


class TierList(msgspec.Struct, frozen=True, kw_only=True):
    tiers: list[TierDocument]


class CategoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for a kind of work. `None`: it says nothing about that."""

    name: str
    tolerance_seconds: float | None = None
    lane: str | None = None
    cap_seconds: float | None = None
    isolation: str | None = None


class CategoryList(msgspec.Struct, frozen=True, kw_only=True):
    categories: list[CategoryDocument]


class LaneDocument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    rank: int = 0
    level: int = 1
    gated: bool = False
    promotes: bool = True


class LaneList(msgspec.Struct, frozen=True, kw_only=True):
    lanes: list[LaneDocument]


class PoolDocument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    id: int | None = None
    elastic: bool = False
    peak_percent: int = 80
    urgent_kept_percent: int = 10
    running_tasks: int | None = None
    paused: bool = False
    isolations: list[str] = []


class PoolList(msgspec.Struct, frozen=True, kw_only=True):
    pools: list[PoolDocument]
