"""Webhooks as rows: who is told of what, and the outbox of what is to be delivered.

A webhook's place in the log moves in the transaction that puts its messages into the outbox, so every event becomes
one message of each webhook that wants it, whatever dies when.
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
from rota.store.statements import sql

_COLUMNS = """id, tenant, url, types, task, schedule, name, tag_name, tag_value, salt, created_by, created_at,
    stopped_reason, xid, "row", position"""


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
    """Told of what happens from now on; of one task also what happened to it: it may be quicker than its owner."""
    cursor = await newest_cursor(connection)
    if wanted.task is not None:
        first = await connection.fetchval(
            """select xid::text::bigint from events
                where tenant = $1 and at >= (select created_at from tasks where id = $2 and tenant = $1)
                order by xid limit 1""",
            tenant, wanted.task,
        )  # fmt: skip
        cursor = EventCursor(first) if first is not None and first < cursor.xid else cursor
    row = await connection.fetchrow(
        f"""insert into webhooks (tenant, url, types, task, schedule, name, tag_name, tag_value, salt, created_by, xid)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning {_COLUMNS}""",
        tenant, url, None if wanted.types is None else sorted(wanted.types), wanted.task, wanted.schedule, wanted.name,
        *(wanted.tag or (None, None)), salt, user, cursor.xid,
    )  # fmt: skip
    assert row is not None
    return _webhook(row)


async def list_webhooks(connection: AnyConnection, tenant: int) -> list[Webhook]:
    rows = await connection.fetch(f"select {_COLUMNS} from webhooks where tenant = $1 order by id", tenant)
    return [_webhook(row) for row in rows]


async def find_webhook(connection: AnyConnection, tenant: int, number: int) -> Webhook | None:
    row = await connection.fetchrow(f"select {_COLUMNS} from webhooks where tenant = $1 and id = $2", tenant, number)
    return None if row is None else _webhook(row)


async def remove_webhook(connection: AnyConnection, tenant: int, number: int) -> bool:
    gone = await connection.fetchval("delete from webhooks where tenant = $1 and id = $2 returning id", tenant, number)
    if gone is not None:
        await connection.execute("delete from deliveries where webhook = $1 and tenant = $2", number, tenant)
    return gone is not None


async def resume_webhook(connection: AnyConnection, tenant: int, number: int) -> bool:
    """One that was stopped is told again, of what happens from now on."""
    cursor = await newest_cursor(connection)
    done = await connection.fetchval(
        """update webhooks set stopped_reason = null,
                xid = case when stopped_reason is null then xid else $3 end,
                "row" = case when stopped_reason is null then "row" else 0 end,
                position = case when stopped_reason is null then position else 0 end
            where tenant = $1 and id = $2 returning id""",
        tenant, number, cursor.xid,
    )  # fmt: skip
    return done is not None


def _webhook(row: asyncpg.Record) -> Webhook:
    return Webhook(
        id=row["id"], tenant=row["tenant"], url=row["url"], salt=row["salt"], created_by=row["created_by"],
        created_at=row["created_at"], stopped_reason=row["stopped_reason"],
        cursor=EventCursor(row["xid"], row["row"], row["position"]),
        wanted=EventFilter(
            types=None if row["types"] is None else frozenset(map(EventType, row["types"])), task=row["task"],
            schedule=row["schedule"], name=row["name"],
            tag=None if row["tag_name"] is None else (row["tag_name"], row["tag_value"]),
        ),
    )  # fmt: skip


# ---- from the log to the outbox ------------------------------------------------------------------------------------


async def webhooks_with_news(connection: AnyConnection) -> list[int]:
    rows = await connection.fetch(
        """select webhooks.id from webhooks
            where webhooks.stopped_reason is null and exists (
                select from events where events.tenant = webhooks.tenant
                    and (events.xid, events.id) > (webhooks.xid::text::xid8, webhooks."row")
                    and events.xid < pg_snapshot_xmin(pg_current_snapshot()))
            order by webhooks.id"""
    )
    return [row["id"] for row in rows]


async def lock_webhook(connection: AnyConnection, number: int) -> Webhook | None:
    """None: another node is at it, or it is gone or stopped."""
    row = await connection.fetchrow(
        f"""select {_COLUMNS} from webhooks where id = $1 and stopped_reason is null for update skip locked""", number
    )
    return None if row is None else _webhook(row)


async def put_out(
    connection: AnyConnection, webhook: Webhook, messages: Sequence[Outgoing], cursor: EventCursor
) -> None:
    if messages:
        await connection.execute(
            """insert into deliveries (webhook, tenant, message, type, body)
                select $1, $2, * from unnest($3::text[], $4::text[], $5::text[]) on conflict do nothing""",
            webhook.id, webhook.tenant, [one.message for one in messages], [one.type.value for one in messages],
            [one.body for one in messages],
        )  # fmt: skip
    await connection.execute(
        'update webhooks set xid = $2, "row" = $3, position = $4 where id = $1',
        webhook.id, cursor.xid, cursor.row, cursor.position,
    )  # fmt: skip


# ---- from the outbox to the receivers ------------------------------------------------------------------------------


async def claim_deliveries(
    connection: AnyConnection, *, limit: int, of_each: int, claim_seconds: float
) -> list[Message]:
    rows = await connection.fetch(sql("claim_deliveries"), limit, of_each, claim_seconds)
    return [
        Message(
            delivery=row["id"], webhook=row["webhook"], url=row["url"], salt=row["salt"], id=row["message"],
            body=row["body"], tries=row["tries"],
        )
        for row in rows
    ]  # fmt: skip


async def record_try(
    connection: AnyConnection,
    message: Message,
    *,
    state: DeliveryState,
    status: int | None,
    trouble: str | None,
    again_in_seconds: float,
) -> None:
    """How a try ended. One that another node has claimed since is left to it."""
    await connection.execute(
        """update deliveries set state = $3, status = $4, trouble = $5, next_at = now() + make_interval(secs => $6)
            where id = $1 and tries = $2""",
        message.delivery, message.tries, state, status, None if trouble is None else trouble[:500], again_in_seconds,
    )  # fmt: skip


async def stop_webhook(connection: AnyConnection, number: int, reason: str) -> None:
    """Nothing more is sent to it, and what waits is given up."""
    async with connection.transaction():
        await connection.execute("update webhooks set stopped_reason = $2 where id = $1", number, reason)
        await connection.execute("update deliveries set state = 3 where webhook = $1 and state = 1", number)


async def list_deliveries(connection: AnyConnection, webhook: int, *, before: int, limit: int) -> list[Delivery]:
    rows = await connection.fetch(
        """select id, type, message, state, tries, status, trouble, created_at, tried_at, next_at from deliveries
            where webhook = $1 and id < $2 order by id desc limit $3""",
        webhook, before, limit,
    )  # fmt: skip
    return [
        Delivery(
            id=row["id"], type=row["type"], message=row["message"], state=DeliveryState(row["state"]),
            tries=row["tries"], status=row["status"], trouble=row["trouble"], created_at=row["created_at"],
            tried_at=row["tried_at"], next_at=row["next_at"],
        )
        for row in rows
    ]  # fmt: skip


async def redeliver(connection: AnyConnection, webhook: int, number: int) -> bool:
    """Due at once, with all its tries before it. The message keeps its id."""
    done = await connection.fetchval(
        """update deliveries set state = 1, tries = 0, next_at = now() where webhook = $1 and id = $2 returning id""",
        webhook, number,
    )  # fmt: skip
    return done is not None


async def forget_deliveries(connection: AnyConnection, days: int, *, rows: int) -> None:
    await connection.execute(
        """delete from deliveries where id in (
            select id from deliveries where created_at < now() - make_interval(days => $1)
            order by created_at limit $2 for update skip locked)""",
        days, rows,
    )  # fmt: skip
