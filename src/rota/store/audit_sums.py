"""The sums of the audit log: which bytes of a row and of a seal are summed, as version 1 of the rule.

Pure, so that an auditor can do the same with other tools: a row is the JSON array of its columns in the order of
`COLUMNS`, times in microseconds since 1970, JSON columns as PostgreSQL prints them; its digest is the SHA-256 of
`rota-audit-1`, a line feed, and the array. What was sealed by a version is always verified by that version: a change
here is a new version, never another meaning of an old one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

VERSION = 1
DIGEST_BYTES = 32
NO_HASH = bytes(32)  # what the first seal of all has in place of a previous one
COLUMNS = (
    "id",
    "at",
    "xid",
    "tenant",
    "actor_kind",
    "actor",
    "credential",
    "on_behalf_of",
    "via",
    "action",
    "object_kind",
    "object_id",
    "outcome",
    "reason",
    "before",
    "after",
    "selection",
    "count",
    "address",
    "agent",
    "request_id",
    "server",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Rows after (after_xid, after_id) up to (to_xid, to_id) with ids from `least_id` on, in the order of (xid, id)."""

    number: int
    day: date
    at: datetime
    version: int = VERSION
    after_xid: int
    after_id: int
    to_xid: int
    to_id: int
    least_id: int
    most_id: int  # the largest in this or an earlier seal
    ids: tuple[int, ...]
    earlier: tuple[int, ...]  # of these, the rows of a month before that of the day
    earlier_months: tuple[int, ...]  # of each of them, as 203001
    digests: bytes
    previous: bytes
    hash: bytes = b""

    def digest_of(self, position: int) -> bytes:
        return self.digests[position * DIGEST_BYTES : (position + 1) * DIGEST_BYTES]


def digest(row: Mapping[str, Any]) -> bytes:
    """Of a row as `audit/row_columns` reads it."""
    values = [_micros(row[name]) if name == "at" else row[name] for name in COLUMNS]
    return hashlib.sha256(b"rota-audit-1\n" + msgspec.json.encode(values)).digest()


def hash_of(seal: Seal) -> bytes:
    """What the seal's `hash` must be: over the previous one, the range, the ids, and the digests."""
    values = [
        seal.number,
        seal.day.isoformat(),
        _micros(seal.at),
        seal.version,
        seal.after_xid,
        seal.after_id,
        seal.to_xid,
        seal.to_id,
        seal.least_id,
        seal.most_id,
        seal.ids,
        seal.earlier,
        seal.earlier_months,
        seal.digests.hex(),
        seal.previous.hex(),
    ]
    return hashlib.sha256(b"rota-audit-seal-1\n" + msgspec.json.encode(values)).digest()


def head_of(seal: Seal) -> str:
    """What an operator writes down elsewhere: it stands for all rows up to this seal."""
    return f"{seal.number}:{seal.hash.hex()}"


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
