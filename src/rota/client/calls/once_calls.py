"""The requests about effects that must not happen twice: claim, record, release."""

from __future__ import annotations

from rota.client.calls.call import Call, post
from rota.client.options import Duration, plain_duration
from rota.model.answers.once import OnceDocument
from rota.model.once import MOST_RESULT_BYTES
from rota.model.strict_json import NotJson, encode


def claim(key: str, claim_id: str, lease: Duration) -> Call[OnceDocument]:
    """Asks to do it. The caller makes the claim's id, so the request may be repeated."""
    body = {"key": key, "claim": claim_id, "lease": plain_duration(lease)}
    return post("/v1/once", OnceDocument, body, repeatable=True)


def record(key: str, result: object, claim_id: str | None = None) -> Call[OnceDocument]:
    """It is done. Without a claim, a repeated call never records twice, but can't tell whose record it finds."""
    body = {"key": key, "result": result} | ({} if claim_id is None else {"claim": claim_id})
    return post("/v1/once", OnceDocument, body, repeatable=True)


def release(key: str, claim_id: str) -> Call[OnceDocument]:
    """It was not done: the next caller may do it."""
    return post("/v1/once", OnceDocument, {"key": key, "claim": claim_id, "release": True}, repeatable=True)


def fault_of(result: object) -> str:
    """Why a result can't be stored, in one sentence; "" if it can, as far as the client knows."""
    try:
        size_bytes = len(encode(result))
    except NotJson as error:
        return str(error)
    too_large = f"it has {size_bytes} bytes of JSON; at most {MOST_RESULT_BYTES} are kept"
    return too_large if size_bytes > MOST_RESULT_BYTES else ""
