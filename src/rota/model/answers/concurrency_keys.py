"""Concurrency keys: how many tasks hold and wait for each, and cool-downs."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import Time


class ConcurrencyKeyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A concurrency key in one pool, or with the scope `global` in all. Without live tasks it has no scope."""

    key: str
    scope: str | None = None  # pool or global
    pool: str | None = None
    running: int = 0
    limit: int | None = None
    waiting: int = 0
    cooled_until: Time | None = None


class ConcurrencyKeyList(msgspec.Struct, frozen=True, kw_only=True):
    """The concurrency keys of a tenant, by name."""

    keys: list[ConcurrencyKeyDocument]


class CooledKey(msgspec.Struct, frozen=True, kw_only=True):
    """A concurrency key, and until when no task with it starts; null: the cool-down is over."""

    key: str
    cooled_until: Time | None = None
