"""The requests about concurrency keys."""

from __future__ import annotations

from rota.client.calls.call import Call, get, post, segment
from rota.model.answers.concurrency_keys import CoolAnswer, KeyList


def keys() -> Call[KeyList]:
    return get("/v1/keys", KeyList)


def cool_key(name: str, seconds: float | str) -> Call[CoolAnswer]:
    """A repeated request only starts the cool-down anew."""
    return post(f"/v1/keys/{segment(name)}/cool", CoolAnswer, {"seconds": seconds}, repeatable=True)
