"""Webhooks of one's tenant: the calls, their answers, and `client.webhooks` in both faces.

The secret that messages are signed with comes once, in the answer to `add`; no other call brings it back.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.client.calls.secret_calls import AsyncPerforms, Performs
from rota.client.calls.task_calls import Call, get, post
from rota.model.answers.webhooks import DeliveryPage, Redelivered, WebhookDocument, WebhookList


def add_webhook(
    url: str,
    *,
    events: Sequence[str] = (),
    task: int | None = None,
    schedule: str | None = None,
    name: str | None = None,
    tag: tuple[str, str] | None = None,
) -> Call[WebhookDocument]:
    body = {"url": url, "events": list(events), "task": task, "schedule": schedule, "name": name}
    return post("/v1/webhooks", WebhookDocument, {**body, "tag": dict([tag]) if tag else {}})


def webhooks() -> Call[WebhookList]:
    return get("/v1/webhooks", WebhookList)


def remove_webhook(number: int) -> Call[None]:
    return Call("DELETE", f"/v1/webhooks/{number}", lambda _: None)


def resume_webhook(number: int) -> Call[WebhookDocument]:
    return post(f"/v1/webhooks/{number}/resume", WebhookDocument, repeatable=True)


def deliveries(number: int, *, limit: int | None = None, cursor: str | None = None) -> Call[DeliveryPage]:
    return get(f"/v1/webhooks/{number}/deliveries", DeliveryPage, {"limit": limit, "cursor": cursor})


def redeliver(number: int, delivery: int) -> Call[Redelivered]:
    return post(f"/v1/webhooks/{number}/deliveries/{delivery}/redeliver", Redelivered)


class Webhooks:
    """`client.webhooks`: add, list, remove, resume, deliveries, redeliver."""

    def __init__(self, client: Performs) -> None:
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
        call = add_webhook(url, events=events, task=task, schedule=schedule, name=name, tag=tag)
        return self._client.perform(call)

    def list(self) -> Sequence[WebhookDocument]:
        return self._client.perform(webhooks()).webhooks

    def remove(self, number: int) -> None:
        self._client.perform(remove_webhook(number))

    def resume(self, number: int) -> WebhookDocument:
        """One that was stopped by its receiver is told again, from now on."""
        return self._client.perform(resume_webhook(number))

    def deliveries(self, number: int, *, limit: int | None = None, cursor: str | None = None) -> DeliveryPage:
        """What was sent and is to be sent, newest first."""
        return self._client.perform(deliveries(number, limit=limit, cursor=cursor))

    def redeliver(self, number: int, delivery: int) -> Redelivered:
        return self._client.perform(redeliver(number, delivery))


class AsyncWebhooks:
    """`client.webhooks` of the awaiting client."""

    def __init__(self, client: AsyncPerforms) -> None:
        self._client = client

    async def add(
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
        call = add_webhook(url, events=events, task=task, schedule=schedule, name=name, tag=tag)
        return await self._client.perform(call)

    async def list(self) -> Sequence[WebhookDocument]:
        return (await self._client.perform(webhooks())).webhooks

    async def remove(self, number: int) -> None:
        await self._client.perform(remove_webhook(number))

    async def resume(self, number: int) -> WebhookDocument:
        """One that was stopped by its receiver is told again, from now on."""
        return await self._client.perform(resume_webhook(number))

    async def deliveries(self, number: int, *, limit: int | None = None, cursor: str | None = None) -> DeliveryPage:
        """What was sent and is to be sent, newest first."""
        return await self._client.perform(deliveries(number, limit=limit, cursor=cursor))

    async def redeliver(self, number: int, delivery: int) -> Redelivered:
        return await self._client.perform(redeliver(number, delivery))
