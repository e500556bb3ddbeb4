"""The requests about concurrency keys."""

from __future__ import annotations

from rota.client.calls.call import Call, get, post, segment
from rota.model.answers.concurrency_keys import ConcurrencyKeyList, CooledKey


def keys() -> Call[ConcurrencyKeyList]:
    return get("/v1/concurrency-keys", ConcurrencyKeyList)


def cool_key(name: str, seconds: float | str) -> Call[CooledKey]:
    """A repeated request only starts the cool-down anew."""
    return post(f"/v1/concurrency-keys/{segment(name)}/cool", CooledKey, {"seconds": seconds}, repeatable=True)
