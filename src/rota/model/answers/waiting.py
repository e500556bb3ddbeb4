"""The server's answers about waiting: why a task does, what a submission would meet, how a pool stands.

The companion of `documents.py`; the same rules hold.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from rota.model.answers.tasks import Amounts


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    state: str = ""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A reason, its place in line and an estimate. `basis` says what the estimate rests on; `None` means unknown."""

    reason: str
    sentence: str
    place: int | None = None
    ahead_of_mine: int | None = None
    tenants_ahead: int | None = None
    estimated_start: datetime | None = None
    basis: str = "unknown"
    likely_node: str | None = None
    nodes_that_could: int | None = None
    nodes_with_room: int | None = None


class WhyDocument(Waiting, frozen=True, kw_only=True):
    id: int
    state: str
    status: str = ""
    blocked_by: list[Parent] = []  # the first of them
    blocked_by_count: int = 0


class PreviewGroup(Waiting, frozen=True, kw_only=True):
    """Tasks that differ in nothing that matters here; `first` is the place of the first in the request."""

    first: int = 0
    tasks: int = 1
    name: str = ""
    state: str = ""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    detail: str = ""
    retry_after: float | None = None


class MetLimit(msgspec.Struct, frozen=True, kw_only=True):
    limit: str
    most: float
    used: float
    asked: float


class PreviewDocument(msgspec.Struct, frozen=True, kw_only=True):
    accepted: bool
    tasks: int = 1
    refusals: list[Refusal] = []
    already_submitted: list[int] = []
    limits: list[MetLimit] = []
    groups: list[PreviewGroup] = []
    groups_left_out: int = 0


class ResourceLoad(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    utilisation: float = 0
    total: int | None = None  # None: for operators only
    used: int | None = None
    asked: int | None = None
    asked_of_free: float | None = None
    asked_of_total: float | None = None


class TenantLoad(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str
    weight: int = 1
    share: float = 0
    charged_share: float = 0
    ready: int = 0
    running: int = 0
    cpu: float = 0
    memory_bytes: int = 0
    paused: bool = False


class LaneLoad(msgspec.Struct, frozen=True, kw_only=True):
    lanes: list[str]
    gated: bool = False
    ready: int = 0
    running: int = 0


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: str = ""
    capacity: Amounts = Amounts()
    free: Amounts = Amounts()
    held: int = 0
    behind: int = 0


class KeptPlace(msgspec.Struct, frozen=True, kw_only=True):
    task: int
    node: str
    at: datetime
    preempting: bool = False


class MissingNodes(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    capacity: Amounts = Amounts()
    tasks: int = 0


class UnplaceableTasks(msgspec.Struct, frozen=True, kw_only=True):
    tasks: int
    asks: Amounts = Amounts()
    require: dict[str, str] = {}


class DemandDocument(msgspec.Struct, frozen=True, kw_only=True):
    ready: int = 0
    looked_at: int = 0
    late: int = 0
    missing: list[MissingNodes] = []
    idle: list[str] = []
    unplaceable: list[UnplaceableTasks] = []


class LoadDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A pool at one moment. What is None is for operators only."""

    pool: str
    leader: str = ""
    epoch: int = 0
    at: datetime | None = None
    utilisation: float = 0
    paused: bool = False
    peak: bool = False
    peak_mark: float = 0.8
    resources: list[ResourceLoad] = []
    own: TenantLoad | None = None
    ready: int | None = None
    running: int | None = None
    lanes: list[LaneLoad] | None = None
    tenants: list[TenantLoad] | None = None
    tenants_in_all: int = 0
    nodes: list[NodeLoad] | None = None
    nodes_in_all: int = 0
    reservations: list[KeptPlace] | None = None
    demand: DemandDocument | None = None
