"""Answers to agents: where a pool's leader is, and the objects that attempts stored."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import Time
from rota.model.artifact import Purpose


class LeaderAddress(msgspec.Struct, frozen=True):
    """The server node that leads a pool, and its term."""

    url: str
    epoch: int


class Challenge(msgspec.Struct, frozen=True):
    """What an agent signs, within a minute, to prove its identity. `cluster` is signed with it."""

    cluster: str
    challenge: str


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node asks to be known by a key. Key and signature are base64url without padding."""

    pool: str
    name: str
    public_key: str
    challenge: str
    signature: str


class JoinedNode(msgspec.Struct, frozen=True):
    """From now on the key proves that its holder is this node."""

    pool: str
    name: str
    fingerprint: str


class ProofRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node proves its identity for one boot of its agent."""

    pool: str
    name: str
    boot: int
    challenge: str
    signature: str


class NodeToken(msgspec.Struct, frozen=True):
    """What the agent sends as its token, for so many seconds."""

    token: str
    seconds: int


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
