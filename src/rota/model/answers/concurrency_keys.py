"""Concurrency keys: how many tasks hold and wait for each, and cool-downs."""

from __future__ import annotations

from datetime import datetime

import msgspec


class KeyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it stands, once for each pool where it is counted so. Without live tasks it has no scope."""

    key: str
    scope: str | None = None  # pool or global
    pool: str | None = None
    held: int = 0
    limit: int | None = None
    waiting: int = 0
    cooled_until: datetime | None = None


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    keys: list[KeyDocument]


class CoolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    cooled_until: datetime | None = None
