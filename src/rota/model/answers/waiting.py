"""Waiting: why a task waits, what a submission would meet, how busy a pool and a concurrency key are."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import MayBeAbsent, Time
from rota.model.answers.tasks import Amounts


class BlockingTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that another one waits for."""

    id: int
    state: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task waits, its position in the queue, and when it will probably start. null: unknown."""

    reason: str
    sentence: str
    position: int | None = None
    ahead_of_mine: int | None = None
    tenants_ahead: int | None = None
    estimated_start: Time | None = None
    basis: str = "unknown"  # of the estimate
    run_times: str | None = None  # where the run times behind it come from: history, cap, shape or age; null: from none
    start_unknown: str = ""  # why there is no estimate; empty if there is one, or if it does not wait
    likely_node: str | None = None
    suitable_nodes: int | None = None
    free_nodes: int | None = None
    tolerance_seconds: float | None = None  # how long the start may be delayed; null: nobody said
    tolerance_source: str = ""  # given, category, cap, plan or none


class TaskExplanation(Explanation, frozen=True, kw_only=True):
    """Why a task waits, or how it runs or ended; `blocked_by` lists the first tasks that it waits for."""

    id: int
    state: str
    status: str = ""
    blocked_by: list[BlockingTask] = []
    blocked_by_count: int = 0
    start_by: Time | None = None  # when its tolerance ends


class PreviewGroup(Explanation, frozen=True, kw_only=True):
    """Tasks with equal needs; `first` is the index of the first in the request."""

    first: int = 0
    tasks: int = 1
    name: str = ""
    state: str = ""
    starting_now: int = 0  # how many of them would start at once
    last_start: Time | None = None  # when the last of them would start that has an estimate
    without_start: int = 0  # how many have no estimate


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with which the submission would be refused."""

    type: str
    detail: str = ""
    retry_after: float | None = None


class MetLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of the plan on running tasks that the submission would reach."""

    limit: str
    most: float
    used: float
    asked: float


class PreviewUpload(msgspec.Struct, frozen=True, kw_only=True):
    """A local file that the submission would upload. `stored`: the tenant has these bytes already."""

    sha256: str
    size_bytes: int = 0
    name: str = ""
    stored: bool = False


class PreviewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a submission would meet. Nothing is stored."""

    accepted: bool
    tasks: int = 1
    refusals: list[Refusal] = []
    already_submitted: list[int] = []
    limits: list[MetLimit] = []
    groups: list[PreviewGroup] = []
    groups_left_out: int = 0
    uploads: list[PreviewUpload] = []


class ResourceLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a resource of the pool is used and asked for; amounts only for operators."""

    name: str
    utilisation: float = 0
    total: MayBeAbsent[int | None] = None
    used: MayBeAbsent[int | None] = None
    asked: MayBeAbsent[int | None] = None
    asked_of_free: MayBeAbsent[float | None] = None
    asked_of_total: MayBeAbsent[float | None] = None


class TenantLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's share of the pool."""

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
    """Lanes of one level."""

    lanes: list[str]
    gated: bool = False
    ready: int = 0
    running: int = 0


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the pool: the attempts that run there, and those that wait there for resources."""

    id: int = 0
    name: str = ""
    state: str = ""
    capacity: Amounts = Amounts()
    free: Amounts = Amounts()
    running: int = 0
    prefetched: int = 0


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A node kept for a task from a time on."""

    task: int
    node: str
    at: Time
    preempting: bool = False


class MissingNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that would have to join for the waiting tasks."""

    nodes: int
    capacity: Amounts = Amounts()
    tasks: int = 0
    require: dict[str, str] = {}  # labels that no present node of this capacity has


class UnplaceableTasks(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting tasks that fit on no present node."""

    tasks: int
    asks: Amounts = Amounts()
    require: dict[str, str] = {}


class DemandDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the ready tasks need beyond the present nodes."""

    ready: int = 0
    looked_at: int = 0
    late: int = 0
    missing: list[MissingNodes] = []
    idle: list[str] = []
    unplaceable: list[UnplaceableTasks] = []


class PoolLoadDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A pool at one moment. The fields after `own` are for operators only."""

    pool: str
    leader: str = ""
    epoch: int = 0
    at: Time | None = None
    utilisation: float = 0
    paused: bool = False
    peak: bool = False
    peak_mark: float = 0.8
    resources: list[ResourceLoad] = []
    own: TenantLoad | None = None
    ready: MayBeAbsent[int | None] = None
    running: MayBeAbsent[int | None] = None
    lanes: MayBeAbsent[list[LaneLoad] | None] = None
    tenants: MayBeAbsent[list[TenantLoad] | None] = None
    tenants_in_all: MayBeAbsent[int] = 0
    nodes: MayBeAbsent[list[NodeLoad] | None] = None
    nodes_in_all: MayBeAbsent[int] = 0
    reservations: MayBeAbsent[list[Reservation] | None] = None
    demand: MayBeAbsent[DemandDocument | None] = None


class ConcurrencyKeyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A concurrency key in one pool, or with the scope `global` in all. Without live tasks it has no scope.

    Each task's own limit decides when it starts; `limit` is the highest of its live tasks, `limits` are all of them.
    """

    key: str
    scope: str | None = None  # pool or global
    pool: str | None = None
    running: int = 0
    limit: int | None = None
    limits: list[int] = []
    waiting: int = 0
    cooled_until: Time | None = None


class ConcurrencyKeyList(msgspec.Struct, frozen=True, kw_only=True):
    """The concurrency keys of a tenant, by name."""

    keys: list[ConcurrencyKeyDocument]


class CooledKey(msgspec.Struct, frozen=True, kw_only=True):
    """A concurrency key, and until when no task with it starts; null: the cool-down is over."""

    key: str
    cooled_until: Time | None = None
