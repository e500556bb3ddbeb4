"""Webhooks as rows: their filters, and the outbox of their messages.

A webhook's cursor in the log moves in the transaction that writes its messages into the outbox, so every event becomes
one message for each webhook that selects it, whichever process dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from rota.model.event import EventCursor, EventFilter, EventType
from rota.model.webhook import DeliveryState, Message, Webhook
from rota.store.database import AnyConnection
from rota.store.events import newest_cursor
from rota.store.statements import columns, sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    id: int
    type: str
    message: str
    state: DeliveryState
    tries: int
    status: int | None
    trouble: str | None
    created_at: datetime
    tried_at: datetime | None
    next_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    message: str
    type: EventType
    body: str


async def add_webhook(
    connection: AnyConnection, tenant: int, url: str, wanted: EventFilter, *, salt: bytes, user: str
) -> Webhook:
    """The webhook receives events from now on; one of a single task also its earlier events."""
    cursor = await newest_cursor(connection)
    if wanted.task is not None:
        first = await connection.fetchval(sql("webhooks/first_event_of_task"), tenant, wanted.task)
        cursor = EventCursor(first) if first is not None and first < cursor.xid else cursor
    row = await connection.fetchrow(
        sql("webhooks/add_webhook"),
        tenant,
        url,
        None if wanted.types is None else sorted(wanted.types),
        wanted.task,
        wanted.schedule,
        wanted.name,
        *(wanted.tag or (None, None)),
        salt,
        user,
        cursor.xid,
    )
    assert row is not None
    return _webhook(row)


async def list_webhooks(connection: AnyConnection, tenant: int) -> list[Webhook]:
    rows = await connection.fetch(sql("webhooks/list_webhooks"), tenant)
    return [_webhook(row) for row in rows]


async def find_webhook(connection: AnyConnection, tenant: int, number: int) -> Webhook | None:
    row = await connection.fetchrow(sql("webhooks/find_webhook"), tenant, number)
    return None if row is None else _webhook(row)


async def remove_webhook(connection: AnyConnection, tenant: int, number: int) -> bool:
    gone = await connection.fetchval(sql("webhooks/remove_webhook"), tenant, number)
    if gone is not None:
        await connection.execute(sql("webhooks/remove_deliveries"), number, tenant)
    return gone is not None


async def resume_webhook(connection: AnyConnection, tenant: int, number: int) -> bool:
    """Resumes a stopped webhook with the events from now on."""
    cursor = await newest_cursor(connection)
    done = await connection.fetchval(sql("webhooks/resume_webhook"), tenant, number, cursor.xid)
    return done is not None


def _webhook(row: asyncpg.Record) -> Webhook:
    return Webhook(
        id=row["id"],
        tenant=row["tenant"],
        url=row["url"],
        salt=row["salt"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        stopped_reason=row["stopped_reason"],
        cursor=EventCursor(row["xid"], row["row"], row["position"]),
        wanted=EventFilter(
            types=None if row["types"] is None else frozenset(map(EventType, row["types"])),
            task=row["task"],
            schedule=row["schedule"],
            name=row["name"],
            tag=None if row["tag_name"] is None else (row["tag_name"], row["tag_value"]),
        ),
    )


# ---- from the log to the outbox ------------------------------------------------------------------------------------


async def webhooks_with_news(connection: AnyConnection) -> list[int]:
    rows = await connection.fetch(sql("webhooks/webhooks_with_news"))
    return [row["id"] for row in rows]


async def lock_webhook(connection: AnyConnection, number: int) -> Webhook | None:
    """None: another node works on it, or it is removed or stopped."""
    row = await connection.fetchrow(sql("webhooks/lock_webhook"), number)
    return None if row is None else _webhook(row)


async def put_out(
    connection: AnyConnection, webhook: Webhook, messages: Sequence[Outgoing], cursor: EventCursor
) -> None:
    if messages:
        await connection.execute(
            sql("webhooks/insert_deliveries"),
            webhook.id,
            webhook.tenant,
            *columns(messages, "message", "type.value", "body"),
        )
    await connection.execute(sql("webhooks/move_webhook"), webhook.id, cursor.xid, cursor.row, cursor.position)


# ---- from the outbox to the receivers ------------------------------------------------------------------------------


async def claim_deliveries(
    connection: AnyConnection, *, limit: int, of_each: int, claim_seconds: float
) -> list[Message]:
    rows = await connection.fetch(sql("webhooks/claim_deliveries"), limit, of_each, claim_seconds)
    return [
        Message(
            delivery=row["id"],
            webhook=row["webhook"],
            url=row["url"],
            salt=row["salt"],
            id=row["message"],
            body=row["body"],
            tries=row["tries"],
        )
        for row in rows
    ]


async def record_try(
    connection: AnyConnection,
    message: Message,
    *,
    state: DeliveryState,
    status: int | None,
    trouble: str | None,
    again_in_seconds: float,
) -> None:
    """Records how a try ended, unless another node has claimed the delivery since."""
    await connection.execute(
        sql("webhooks/record_try"),
        message.delivery,
        message.tries,
        state,
        status,
        None if trouble is None else trouble[:500],
        again_in_seconds,
    )


async def stop_webhook(connection: AnyConnection, number: int, reason: str) -> None:
    """Stops the webhook and gives up its waiting deliveries."""
    async with connection.transaction():
        await connection.execute(sql("webhooks/stop_webhook"), number, reason)
        await connection.execute(sql("webhooks/give_up_deliveries"), number)


async def list_deliveries(connection: AnyConnection, webhook: int, *, before: int, limit: int) -> list[Delivery]:
    rows = await connection.fetch(sql("webhooks/list_deliveries"), webhook, before, limit)
    return [
        Delivery(
            id=row["id"],
            type=row["type"],
            message=row["message"],
            state=DeliveryState(row["state"]),
            tries=row["tries"],
            status=row["status"],
            trouble=row["trouble"],
            created_at=row["created_at"],
            tried_at=row["tried_at"],
            next_at=row["next_at"],
        )
        for row in rows
    ]


async def redeliver(connection: AnyConnection, webhook: int, number: int) -> bool:
    """Makes the delivery due at once with all its tries. The message keeps its id."""
    done = await connection.fetchval(sql("webhooks/redeliver"), webhook, number)
    return done is not None


async def forget_deliveries(connection: AnyConnection, days: int, *, rows: int) -> None:
    await connection.execute(sql("webhooks/forget_deliveries"), days, rows)
