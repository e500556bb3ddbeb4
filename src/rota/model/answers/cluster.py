"""The server's answers about itself and about who may use it: plans, keys, tenants, nodes, servers.

The companion of `documents.py`, for the people who run Rota rather than submit to it; the same rules hold.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from rota.model.answers.tasks import Amounts


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription. `None` means unlimited."""

    name: str
    tasks_per_hour: int | None = None
    burst: int | None = None
    waiting_tasks: int | None = None
    running_cpu: float | None = None
    running_memory_bytes: int | None = None
    longest_cap_seconds: float | None = None
    tiers: list[str] = []
    weight: int = 1
    running_tasks: int | None = None
    urgent_percent: int = 50
    network: bool = False
    storage_bytes: int | None = None


class PlanList(msgspec.Struct, frozen=True, kw_only=True):
    plans: list[PlanDocument]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    waiting: int = 0
    running: int = 0
    running_cpu: float = 0
    running_memory_bytes: int = 0
    burst_left: float | None = None


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who the caller is to the server, what its plan allows, and how much of it is used."""

    tenant: str
    user: str
    role: str
    plan: PlanDocument
    usage: Usage = Usage()


class NodeDocument(msgspec.Struct, frozen=True, kw_only=True):
    id: int | str
    name: str = ""
    pool: str = ""
    state: str = ""
    draining: bool = False  # also while its worker is away
    capacity: Amounts = Amounts()
    free: Amounts | None = None  # None while the pool's leader can't be asked
    labels: dict[str, str] = {}
    seen_at: datetime | None = None
    version: str = ""
    running: int | None = None
    capabilities: list[str] = []
    drain_by: datetime | None = None  # when what still runs on a draining node is asked to stop


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    nodes: list[NodeDocument]


class ServerDocument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str | None = None
    version: str = ""
    seen_at: datetime | None = None
    leads: list[str] = []


class ServerList(msgspec.Struct, frozen=True, kw_only=True):
    servers: list[ServerDocument]


class TenantDocument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    id: int | None = None
    plan: str = ""
    trusted: bool = False
    paused: bool = False
    created_at: datetime | None = None


class TenantList(msgspec.Struct, frozen=True, kw_only=True):
    tenants: list[TenantDocument]


class TokenDocument(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    public_id: str = ""
    tenant: str = ""
    user: str = ""
    role: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    tokens: list[TokenDocument]


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A fresh key. The server shows `token` this once and keeps only its hash."""

    id: int
    token: str
