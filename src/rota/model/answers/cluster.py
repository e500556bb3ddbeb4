"""The cluster and its users: plans, nodes, server nodes and their health, tenants."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import Time
from rota.model.answers.tasks import Amounts


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a subscription; null: unlimited. `tiers` null: all of them, also those that are added later."""

    name: str
    tasks_per_hour: int | None = None
    burst: int | None = None
    waiting_tasks: int | None = None
    running_cpu: float | None = None
    running_memory_bytes: int | None = None
    longest_cap_seconds: float | None = None
    tiers: list[str] | None = []
    weight: int = 1
    running_tasks: int | None = None
    urgent_percent: int = 50
    network: bool = False
    storage_bytes: int | None = None
    schedules: int | None = None
    webhooks: int | None = None
    tokens: int | None = None
    secrets: int | None = None
    graphs: int | None = None
    log_limit_bytes: int | None = None  # the most output kept of one attempt
    cpu_limit: str | None = None  # burst or quota; null: burst for trusted tenants, quota for others
    tolerance_seconds: float | None = None  # of tasks given neither a tolerance nor a cap; null: they are never late


class PlanList(msgspec.Struct, frozen=True, kw_only=True):
    """All plans."""

    plans: list[PlanDocument]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of its plan a tenant uses now. Counts stop at 100,000."""

    waiting: int = 0
    running: int = 0
    running_cpu: float = 0
    running_memory_bytes: int = 0
    burst_left: float | None = None
    schedules: int = 0
    webhooks: int = 0
    tokens: int = 0
    secrets: int = 0
    graphs: int = 0  # stored graphs and arrays, without those that schedules made
    storage_bytes: int = 0  # of artifacts, checkpoints and other objects of attempts


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, its plan, and how much of it is used."""

    tenant: str
    user: str
    role: str
    plan: PlanDocument
    usage: Usage = Usage()


class NodeKeyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The key with which a node proves its identity, and since when. `joined_with`: the number of the worker key."""

    fingerprint: str
    joined_at: Time | None = None
    joined_with: int | None = None  # null: `rota up` made it a node


class WorkerKeyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What new nodes join a pool with: valid, used up, expired or revoked."""

    id: int
    pool: str
    state: str
    uses: int
    used: int
    expires_at: Time
    created_at: Time
    created_by: str = ""
    used_at: Time | None = None  # when a node last joined with it, and from where
    used_from: str | None = None


class NewWorkerKey(WorkerKeyDocument, frozen=True, kw_only=True):
    """A new worker key. `token` is in this answer only."""

    token: str


class WorkerKeyList(msgspec.Struct, frozen=True, kw_only=True):
    """Worker keys, the newest first."""

    keys: list[WorkerKeyDocument]


class NodeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A machine with an agent."""

    id: int
    name: str = ""
    pool: str = ""
    state: str = ""
    draining: bool = False  # set by an operator; kept while the worker is away
    capacity: Amounts = Amounts()
    free: Amounts | None = None  # null while the pool's leader is unreachable
    labels: dict[str, str] = {}
    seen_at: Time | None = None
    version: str = ""
    running: int | None = None
    frozen: int | None = None  # of these, those that stand still because the node has no leader
    capabilities: list[str] = []
    drain_by: Time | None = None  # when running tasks are asked to stop
    key: NodeKeyDocument | None = None  # null: it has no identity, its worker sends a worker's token


class DrainedNode(NodeDocument, frozen=True, kw_only=True):
    """A node that takes no new tasks."""

    may_still_start: int = 0  # at most so many tasks that it got before: it has not confirmed that it gave them back


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with an agent."""

    nodes: list[NodeDocument]


class ServerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A server node, its state (up, silent, lost or left), and the pools that it leads."""

    name: str
    url: str | None = None
    version: str = ""
    state: str = ""
    seen_at: Time | None = None
    leads: list[str] = []


class ServerList(msgspec.Struct, frozen=True, kw_only=True):
    """The server nodes, and for an hour those that ended."""

    servers: list[ServerDocument]


class DatabaseCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What the database is, and live tasks that nothing would ever move again."""

    postgresql: int  # the major version
    schema: int
    is_current: bool  # the schema is the one that the server's code needs
    # Hosts of the database to which the asked server connects without a check of their certificates.
    unverified_hosts: list[str] = []
    stuck: list[int] | None = None  # at most 1,000 ids; null: not looked for, because the schema is not current


class TenantDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An owner of tasks."""

    name: str
    id: int = 0
    plan: str = ""
    trusted: bool = False
    paused: bool = False
    created_at: Time | None = None
    support: bool = False  # roles that hold everywhere see logs, results and files of its tasks
    share_control: bool = True  # members may cancel, hold and change each other's tasks


class PausedTenant(TenantDocument, frozen=True, kw_only=True):
    """A tenant of which nothing starts."""

    may_still_start: int = 0  # at most so many tasks that nodes got before: not all have confirmed the pause


class TenantList(msgspec.Struct, frozen=True, kw_only=True):
    """All tenants."""

    tenants: list[TenantDocument]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """This process answers."""

    status: str = "ok"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """This server node can admit tasks; `leads` are the pools that it decides for."""

    status: str = "ready"
    leads: list[str] = []
