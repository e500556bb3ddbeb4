"""Whether a server node is alive and ready."""

from __future__ import annotations

import msgspec


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """This process answers."""

    status: str = "ok"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """This server node can admit tasks; `leads` are the pools that it decides for."""

    status: str = "ready"
    leads: list[str] = []
