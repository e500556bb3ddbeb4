# Generated from ../_async by scripts/unasync; edit that.
"""`client.webhooks`: register addresses that receive events, and read what was delivered."""

from __future__ import annotations

from collections.abc import Sequence

from rota.client._sync.sender import Sender
from rota.client.calls import webhook_calls
from rota.model.answers.webhooks import DeliveryPage, Redelivered, WebhookDocument


class Webhooks:
    """`client.webhooks`: add, list, remove, resume, deliveries, redeliver."""

    def __init__(self, client: Sender) -> None:
        self._client = client

    def add(
        self,
        url: str,
        *,
        events: Sequence[str] = (),
        task: int | None = None,
        schedule: str | None = None,
        name: str | None = None,
        tag: tuple[str, str] | None = None,
    ) -> WebhookDocument:
        """Tells `url` of what happens from now on. Keep the answer's `secret`: it is not shown again."""
        call = webhook_calls.add_webhook(url, events=events, task=task, schedule=schedule, name=name, tag=tag)
        return self._client.perform(call)

    def list(self) -> Sequence[WebhookDocument]:
        return self._client.perform(webhook_calls.webhooks()).webhooks

    def remove(self, number: int) -> None:
        self._client.perform(webhook_calls.remove_webhook(number))

    def resume(self, number: int) -> WebhookDocument:
        """One that was stopped by its receiver is told again, from now on."""
        return self._client.perform(webhook_calls.resume_webhook(number))

    def deliveries(self, number: int, *, limit: int | None = None, cursor: str | None = None) -> DeliveryPage:
        """What was sent and is to be sent, newest first."""
        return self._client.perform(webhook_calls.deliveries(number, limit=limit, cursor=cursor))

    def redeliver(self, number: int, delivery: int) -> Redelivered:
        return self._client.perform(webhook_calls.redeliver(number, delivery))
