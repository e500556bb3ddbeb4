"""`client.webhooks`: register addresses that receive events, and read what was delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from rota.client._async.sender import AsyncPart
from rota.client.calls import webhook_calls
from rota.client.options import EventFilter
from rota.model.answers.webhooks import DeliveryPage, Redelivered, WebhookDocument


class AsyncWebhooks(AsyncPart):
    """`client.webhooks`: add, list, remove, resume, deliveries, redeliver."""

    async def add(self, url: str, *, events: Sequence[str] = (), **selected: Unpack[EventFilter]) -> WebhookDocument:
        """Sends events from now on to `url`. Keep the `secret` of the answer: it is not shown again."""
        return await self._client.perform(webhook_calls.add_webhook(url, events=events, **selected))

    async def list(self) -> Sequence[WebhookDocument]:
        """All webhooks of the tenant."""
        return (await self._client.perform(webhook_calls.webhooks())).webhooks

    async def remove(self, number: int) -> None:
        await self._client.perform(webhook_calls.remove_webhook(number))

    async def resume(self, number: int) -> WebhookDocument:
        """Sends events again to a webhook that was stopped, from now on."""
        return await self._client.perform(webhook_calls.resume_webhook(number))

    async def deliveries(self, number: int, *, limit: int | None = None, cursor: str | None = None) -> DeliveryPage:
        """One page of its deliveries, sent and pending, newest first."""
        return await self._client.perform(webhook_calls.deliveries(number, limit=limit, cursor=cursor))

    async def redeliver(self, number: int, delivery: int) -> Redelivered:
        """Sends one delivery again."""
        return await self._client.perform(webhook_calls.redeliver(number, delivery))
