"""Webhooks, their messages, signatures and retries. Pure.

Signatures follow Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`. A signing key is derived from the cluster's
secret and a random salt, so it is stored nowhere.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime

from rota.model.event import EventCursor, EventFilter

SALT_BYTES = 16
# Seconds before each further try, over nineteen hours in all. Then the delivery is given up; it can be redelivered.
BACKOFF_SECONDS = (5, 30, 120, 600, 1800, 3600, 7200, 14400, 14400, 28800)


class DeliveryState(enum.IntEnum):
    WAITING = 1
    DELIVERED = 2
    GIVEN_UP = 3

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    id: int
    tenant: int
    url: str
    wanted: EventFilter
    salt: bytes
    created_by: str
    created_at: datetime
    stopped_reason: str | None
    cursor: EventCursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One try of a delivery."""

    delivery: int
    webhook: int
    url: str
    salt: bytes
    id: str
    body: str
    tries: int  # including this one


def signing_key(cluster_secret: str, salt: bytes) -> bytes:
    return hmac.new(cluster_secret.encode(), b"rota webhook\0" + salt, hashlib.sha256).digest()


def shown_key(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


def signed_headers(key: bytes, message: Message, at: int) -> dict[str, str]:
    """`at`: seconds since 1970."""
    signed = hmac.new(key, f"{message.id}.{at}.{message.body}".encode(), hashlib.sha256).digest()
    return {
        "webhook-id": message.id,
        "webhook-timestamp": str(at),
        "webhook-signature": "v1," + base64.b64encode(signed).decode(),
    }


def pause_after(tries: int, *, chance: float) -> float | None:
    """Seconds to the next try, with up to 10 % jitter; None: the delivery is given up."""
    if tries > len(BACKOFF_SECONDS):
        return None
    return BACKOFF_SECONDS[tries - 1] * (1 + chance / 10)
