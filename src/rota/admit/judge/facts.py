"""The facts that a request is judged against: plan, catalogue, nodes, time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rota.model.catalogue import DEFAULT_LANES, Category, LaneRule, Tier
from rota.model.isolation import ISOLATIONS
from rota.model.request.needs import DEFAULT_LOG_BYTES
from rota.model.resources import Resources
from rota.model.tenant import Plan


@dataclass(frozen=True, slots=True)
class KnownArtifact:
    digest: bytes
    name: str  # given by its owner; may be empty


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What is needed to tell whether a pool could ever meet a demand."""

    id: int
    name: str
    elastic: bool
    nodes: tuple[tuple[Resources, Mapping[str, str]], ...]  # capacity and labels of the present nodes
    isolations: tuple[str, ...] = ISOLATIONS


@dataclass(frozen=True, slots=True)
class Facts:
    now: datetime  # the database's
    plan: Plan
    tiers: Mapping[str, Tier]
    pools: Mapping[str, PoolFacts]
    lanes: Mapping[str, LaneRule] = field(default_factory=lambda: {lane.name: lane for lane in DEFAULT_LANES})
    categories: Mapping[str, Category] = field(default_factory=dict)
    trusted: bool = False  # the tenant
    typical_us: Mapping[int, int] = field(default_factory=dict)  # work → its usual run time for this tenant
    # Digits named in the requests → the tenant's artifacts that begin with them; two stand for several.
    artifacts: Mapping[str, tuple[KnownArtifact, ...]] = field(default_factory=dict)
    tenant: str = ""  # its name
    log_limit_bytes: int = DEFAULT_LOG_BYTES  # output kept of an attempt whose task asks for nothing
    most_log_bytes: int | None = None  # without an object store
