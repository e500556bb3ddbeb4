"""Webhooks and their deliveries."""

from __future__ import annotations

import msgspec


class WebhookDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`events` empty means all. `stopped` says why nothing is sent any more; `secret` only when it was just made."""

    id: int
    url: str
    events: list[str] = []
    task: int | None = None
    schedule: str | None = None
    name: str | None = None
    tag: dict[str, str] = {}
    created_by: str = ""
    created_at: str | None = None
    stopped: str | None = None
    secret: str | None = None


class WebhookList(msgspec.Struct, frozen=True, kw_only=True):
    webhooks: list[WebhookDocument]


class DeliveryDocument(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    message: str
    type: str
    state: str
    tries: int = 0
    status: int | None = None
    trouble: str | None = None
    created_at: str | None = None
    tried_at: str | None = None
    next_at: str | None = None


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True):
    deliveries: list[DeliveryDocument]
    next: str | None = None


class Redelivered(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    state: str
