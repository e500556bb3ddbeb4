"""Webhooks and their deliveries."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import MayBeAbsent, Time


class WebhookDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Empty `events` mean all. `stopped` says why nothing is sent any more; only a new webhook has its `secret`."""

    id: int
    url: str
    events: list[str] = []
    task: int | None = None
    schedule: str | None = None
    name: str | None = None
    tag: dict[str, str] = {}
    created_by: str = ""
    created_at: Time | None = None
    stopped: str | None = None
    secret: MayBeAbsent[str | None] = None


class WebhookList(msgspec.Struct, frozen=True, kw_only=True):
    """The webhooks of a tenant."""

    webhooks: list[WebhookDocument]


class DeliveryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One message to a webhook, and what came of sending it."""

    id: int
    message: str
    type: str
    state: str
    tries: int = 0
    status: int | None = None
    trouble: str | None = None
    created_at: Time | None = None
    tried_at: Time | None = None
    next_at: Time | None = None


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first. `next` is the cursor of the next page, null on the last."""

    deliveries: list[DeliveryDocument]
    next: str | None = None


class Redelivered(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that will be sent again."""

    id: int
    state: str
