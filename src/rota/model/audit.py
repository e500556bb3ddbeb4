"""A row of the audit log: who did what to which object, and with what outcome. Never a secret or a hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Outcome = Literal["done", "denied", "failed"]
ActorKind = Literal["user", "service", "node", "task", "system", "anonymous"]
Via = Literal["ui", "cli", "api", "sdk", ""]  # "": a server node by itself


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A row to write. `object_kind` is the first word of `action`."""

    action: str
    object_kind: str
    object_id: str
    actor_kind: ActorKind
    actor: str
    tenant: int | None = None  # None: of the cluster
    credential: str = ""
    on_behalf_of: str = ""
    via: Via = ""
    outcome: Outcome = "done"
    reason: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    selection: Mapping[str, Any] | None = None
    count: int | None = None
    address: str | None = None
    agent: str = ""
    request_id: str = ""
    server: str = ""


class SecretUse(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt was given secrets: their names."""

    tenant: int
    task: int
    attempt: int
    names: tuple[str, ...]
