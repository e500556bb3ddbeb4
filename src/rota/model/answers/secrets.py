"""Secrets by name, never by value, and the rotation of master keys."""

from __future__ import annotations

import msgspec


class SecretDocument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: int = 1
    created_by: str = ""
    created_at: str | None = None
    changed_by: str = ""
    changed_at: str | None = None


class SecretList(msgspec.Struct, frozen=True, kw_only=True):
    secrets: list[SecretDocument]


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """A master key by its id. `known`: the server node that answered has it."""

    id: str
    known: bool = True
    secrets: int = 0


class NotRotated(msgspec.Struct, frozen=True, kw_only=True):
    tenant: int
    name: str
    reason: str = ""


class Rotation(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    rewrapped: int
    failed: list[NotRotated] = []
    keys: list[KeyUse] = []
