"""Answers to agents: where a pool's leader is, and the objects that attempts stored."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import Time
from rota.model.artifact import Purpose


class LeaderAddress(msgspec.Struct, frozen=True):
    """The server node that leads a pool, and its term."""

    url: str
    epoch: int


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file of an attempt. `artifact` is the id of an output; null for checkpoints and logs."""

    id: int
    attempt: int
    purpose: Purpose
    name: str
    sha256: str
    size_bytes: int
    artifact: str | None = None
    created_at: Time | None = None


class StoredObjectList(msgspec.Struct, frozen=True):
    """The stored files of a task's attempts, newest first."""

    objects: list[StoredObject]
