"""The requests about concurrency keys, and their answers. The companion of `calls.py`, under the same rule."""

from __future__ import annotations

from rota.client.calls.call import Call, get, post, segment
from rota.model.answers.concurrency_keys import CoolAnswer, KeyList


def keys() -> Call[KeyList]:
    return get("/v1/keys", KeyList)


def cool_key(name: str, seconds: float | str) -> Call[CoolAnswer]:
    """Sent twice it holds the key a little longer, no more."""
    return post(f"/v1/keys/{segment(name)}/cool", CoolAnswer, {"seconds": seconds}, repeatable=True)
