"""The requests about a tenant's webhooks. Only the answer to `add_webhook` contains the secret that signs messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from rota.client.calls.call import Call, delete, get, post
from rota.client.options import EventFilter, check_names
from rota.model.answers.webhooks import DeliveryPage, Redelivered, WebhookDocument, WebhookList


def add_webhook(url: str, *, events: Sequence[str] = (), **selected: Unpack[EventFilter]) -> Call[WebhookDocument]:
    check_names(selected, EventFilter)
    tag = selected.get("tag")
    body = {**selected, "url": url, "events": list(events), "tag": dict([tag]) if tag else {}}
    return post("/v1/webhooks", WebhookDocument, body)


def webhooks() -> Call[WebhookList]:
    return get("/v1/webhooks", WebhookList)


def remove_webhook(number: int) -> Call[None]:
    return delete(f"/v1/webhooks/{number}")


def resume_webhook(number: int) -> Call[WebhookDocument]:
    return post(f"/v1/webhooks/{number}/resume", WebhookDocument, repeatable=True)


def deliveries(number: int, *, limit: int | None = None, cursor: str | None = None) -> Call[DeliveryPage]:
    return get(f"/v1/webhooks/{number}/deliveries", DeliveryPage, {"limit": limit, "cursor": cursor})


def redeliver(number: int, delivery: int) -> Call[Redelivered]:
    return post(f"/v1/webhooks/{number}/deliveries/{delivery}/redeliver", Redelivered)
