"""Webhooks: add, list, resume, remove; their deliveries, and sending one again."""

from __future__ import annotations

import secrets as randomness
from typing import Any
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Request, Response

from rota.admit.limits import check_number
from rota.api.answers import answer, filled
from rota.api.audited import audit
from rota.api.described import CURSOR, LIMIT, described, read_query
from rota.api.requests import existing, limit_of, read_json, task_id
from rota.api.services import Services, authorise
from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.webhooks import DeliveryDocument, DeliveryPage, Redelivered, WebhookDocument, WebhookList
from rota.model.errors import Fault, FaultList, invalid, not_found
from rota.model.event import EventFilter, EventType
from rota.model.webhook import SALT_BYTES, Webhook, shown_key, signing_key
from rota.observe.notify.targets import judge
from rota.public_addresses import ForbiddenTarget, Unresolved, resolve
from rota.store import webhooks
from rota.store.reading import NEWEST
from rota.store.webhooks import Delivery

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

MOST_TEXT = 200


class WebhookRequest(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    events: list[str] = []
    task: int | None = None
    schedule: str | None = None
    name: str | None = None
    tag: dict[str, str] = {}


@router.post("", status_code=201)
@described(WebhookDocument, body=WebhookRequest)
async def add_webhook(request: Request) -> Response:
    """Sends events to `url` from now on: all, or by type, `task`, `schedule`, `name` or `tag`.

    With a `task`, its past events are sent as well. The answer has the secret that signs the messages (Standard
    Webhooks); it is not shown again.
    """
    services, caller = await authorise(request)
    asked = await read_json(request, WebhookRequest)
    wanted = _wanted(asked)
    await _check_target(services, asked.url)
    salt = randomness.token_bytes(SALT_BYTES)
    async with services.database.tenant(caller.tenant_id) as connection:
        await check_number(connection, caller.tenant_id, caller.plan, "webhooks")
        made = await webhooks.add_webhook(connection, caller.tenant_id, asked.url, wanted, salt=salt, user=caller.user)
        await services.database.leave_tenant(connection)
        await audit(connection, caller, "webhook.add", made.id, after=_facts(asked))
    secret = shown_key(signing_key(services.cluster.secret, salt))
    return answer(_webhook(made, secret), 201)


@router.get("")
@described(WebhookList)
async def list_webhooks(request: Request) -> Response:
    """The webhooks of the tenant."""
    services, caller = await authorise(request)
    read_query(request)
    async with services.database.tenant(caller.tenant_id) as connection:
        found = await webhooks.list_webhooks(connection, caller.tenant_id)
    return answer(WebhookList(webhooks=[_webhook(one) for one in found]))


@router.delete("/{webhook}", status_code=204)
@described(None)
async def remove_webhook(request: Request, webhook: str) -> Response:
    """Removes a webhook and its deliveries."""
    services, caller = await authorise(request)
    number = task_id(webhook, "webhook")
    async with services.database.tenant(caller.tenant_id) as connection:
        before = await webhooks.find_webhook(connection, caller.tenant_id, number)
        if before is None or not await webhooks.remove_webhook(connection, caller.tenant_id, number):
            raise not_found("webhook")
        await services.database.leave_tenant(connection)
        await audit(connection, caller, "webhook.remove", number, before={"host": _host(before.url)})
    return Response(status_code=204)


@router.post("/{webhook}/resume")
@described(WebhookDocument)
async def resume_webhook(request: Request, webhook: str) -> Response:
    """Sends events again, from now on, to a webhook that was stopped because its receiver answered 410."""
    services, caller = await authorise(request)
    number = task_id(webhook, "webhook")
    async with services.database.tenant(caller.tenant_id) as connection:
        if not await webhooks.resume_webhook(connection, caller.tenant_id, number):
            raise not_found("webhook")
        found = await webhooks.find_webhook(connection, caller.tenant_id, number)
        await services.database.leave_tenant(connection)
        await audit(connection, caller, "webhook.resume", number)
    return answer(_webhook(existing(found, "webhook")))


@router.get("/{webhook}/deliveries")
@described(DeliveryPage, query=(LIMIT, CURSOR))
async def list_deliveries(request: Request, webhook: str) -> Response:
    """Sent and waiting messages, newest first. They are kept for thirty days."""
    services, caller = await authorise(request)
    query = read_query(request)
    number, limit = task_id(webhook, "webhook"), limit_of(query)
    before = services.cursors.read(query.get("cursor"), NEWEST)
    async with services.database.tenant(caller.tenant_id) as connection:
        existing(await webhooks.find_webhook(connection, caller.tenant_id, number), "webhook")
        found = await webhooks.list_deliveries(connection, number, before=before, limit=limit + 1)
    following = services.cursors.make(found[limit - 1].id) if len(found) > limit else None
    return answer(DeliveryPage(deliveries=[_delivery(one) for one in found[:limit]], next=following))


@router.post("/{webhook}/deliveries/{delivery}/redeliver")
@described(Redelivered)
async def redeliver(request: Request, webhook: str, delivery: str) -> Response:
    """Sends a message again now, with the same id."""
    services, caller = await authorise(request)
    number, which = task_id(webhook, "webhook"), task_id(delivery, "delivery")
    async with services.database.tenant(caller.tenant_id) as connection:
        existing(await webhooks.find_webhook(connection, caller.tenant_id, number), "webhook")
        if not await webhooks.redeliver(connection, number, which):
            raise not_found("delivery")
        await services.database.leave_tenant(connection)
        await audit(connection, caller, "webhook.redeliver", number, after={"delivery": which})
    services.notifier.poll_now()
    return answer(Redelivered(id=which, state="waiting"))


def _facts(asked: WebhookRequest) -> dict[str, Any]:
    """For the audit log. An address may carry a password or a key, so only its host is told."""
    given = {name: value for name, value in msgspec.structs.asdict(asked).items() if value and name != "url"}
    return {"host": _host(asked.url), **given}


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _wanted(request: WebhookRequest) -> EventFilter:
    faults = FaultList()
    unknown = [name for name in request.events if name not in set(EventType)]
    if unknown:
        names = ", ".join(EventType)
        faults.add("events", "out-of-range", f"{unknown[0][:40]!r} is not a type of event; there are {names}")
    if request.task is not None and not 0 < request.task < 2**63:
        faults.add("task", "out-of-range", "an id is a positive number")
    if len(request.tag) > 1:
        faults.add("tag", "out-of-range", f"a webhook is filtered by one tag, not by {len(request.tag)}")
    tags = [("tag", text) for pair in request.tag.items() for text in pair]
    for field, text in (("schedule", request.schedule), ("name", request.name), *tags):
        if text is not None and (len(text) > MOST_TEXT or "\0" in text):
            faults.add(field, "out-of-range", f"a filter has at most {MOST_TEXT} characters, and no NUL among them")
    faults.check()
    return EventFilter(
        types=frozenset(map(EventType, request.events)) if request.events else None,
        task=request.task,
        schedule=request.schedule,
        name=request.name,
        tag=next(iter(request.tag.items()), None),
    )


async def _check_target(services: Services, url: str) -> None:
    """An unresolved name is accepted: every delivery checks the target again."""
    try:
        await judge(url, private=services.settings.webhooks_private, resolving=resolve)
    except ForbiddenTarget as error:
        raise invalid([Fault("/url", "forbidden-target", str(error))]) from None
    except Unresolved:
        return


def _webhook(one: Webhook, secret: str = LEFT_OUT) -> WebhookDocument:
    wanted = one.wanted
    return filled(
        WebhookDocument,
        one,
        events=sorted(wanted.types) if wanted.types is not None else [],
        task=wanted.task,
        schedule=wanted.schedule,
        name=wanted.name,
        tag={wanted.tag[0]: wanted.tag[1]} if wanted.tag is not None else {},
        stopped=one.stopped_reason,
        secret=secret,
    )


def _delivery(one: Delivery) -> DeliveryDocument:
    return filled(
        DeliveryDocument, one, state=one.state.label, next_at=one.next_at if one.state.label == "waiting" else None
    )
