"""The requests about concurrency keys, and their answers. The companion of `calls.py`, under the same rule."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import msgspec

from rota.client.calls.task_calls import Call, get, post


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


def keys() -> Call[KeyList]:
    return get("/v1/keys", KeyList)


def cool_key(name: str, seconds: float | str) -> Call[CoolAnswer]:
    """Sent twice it holds the key a little longer, no more."""
    return post(f"/v1/keys/{quote(name, safe='')}/cool", CoolAnswer, {"seconds": seconds}, repeatable=True)
