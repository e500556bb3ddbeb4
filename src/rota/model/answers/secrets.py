"""Secrets by name, never by value, and the rotation of master keys."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import Time


class SecretDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A secret without its value."""

    name: str
    version: int = 1
    created_by: str = ""
    created_at: Time | None = None
    changed_by: str = ""
    changed_at: Time | None = None


class SecretList(msgspec.Struct, frozen=True, kw_only=True):
    """The secrets of a tenant."""

    secrets: list[SecretDocument]


class MasterKeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """A master key by its id. `known`: the server node that answered has it."""

    id: str
    known: bool = True
    secrets: int = 0


class NotRotated(msgspec.Struct, frozen=True, kw_only=True):
    """A secret that no known master key opens, and why."""

    tenant: int
    name: str
    reason: str = ""


class Rotation(msgspec.Struct, frozen=True, kw_only=True):
    """How many secrets are now wrapped with the first master key, which failed, and how many each master key wraps."""

    key: str
    rewrapped: int
    failed: list[NotRotated] = []
    keys: list[MasterKeyUse] = []
