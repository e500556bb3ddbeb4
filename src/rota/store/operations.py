"""Operations as rows: started, taken by a server node for a batch, stopped, listed, forgotten.

A batch and the progress of its operation are one transaction that holds the lock of the operation's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import asyncpg
import msgspec

from rota.model.request.edit import Edit
from rota.model.request.operation import OperationState, Selection, Verb
from rota.store.database import AnyConnection
from rota.store.selection import Count
from rota.store.statements import sql

KEPT_DAYS = 7  # after their end
MOST_REFUSED_SHOWN = 20  # ids for each reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOperation:
    tenant: int
    user: str
    verb: Verb
    where: Mapping[str, str | int]
    selection: Selection
    changes: Mapping[str, object]
    edit: Edit | None
    counted: Count
    key_hash: bytes | None = None
    body_hash: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    id: int
    tenant: int
    user: str
    verb: Verb
    where: Mapping[str, str | int]
    selection: Selection
    changes: dict[str, str | int | float]
    edit: Edit | None
    before_id: int
    state: OperationState
    expected: int
    or_more: bool
    matched: int
    changed: int
    ended: int
    refused: int
    refusals: dict[str, Refused]
    trouble: str | None
    created_at: datetime
    ended_at: datetime | None
    audit: int | None = None  # the row of the audit log that tells of its start


class Refused(msgspec.Struct, frozen=True, array_like=True):
    """How many tasks were refused for a reason, and the first of them."""

    count: int
    ids: tuple[int, ...]


@dataclass(slots=True)
class Progress:
    """What a batch did. `before_id`: where the next one begins; None: there is none."""

    before_id: int | None
    matched: int
    changed: int = 0
    ended: int = 0
    refused: dict[str, list[int]] = field(default_factory=dict)


async def insert_operation(connection: AnyConnection, new: NewOperation) -> Operation | None:
    """None: its idempotency key was used before."""
    row = await connection.fetchrow(
        sql("operations/insert_operation"),
        new.tenant,
        new.user,
        new.verb.value,
        _json(new.where),
        _json(new.selection),
        _json(new.changes),
        None if new.edit is None else _json(new.edit),
        new.counted.number,
        new.counted.or_more,
        new.key_hash,
        new.body_hash,
    )
    return None if row is None else _operation(row)


async def name_audit(connection: AnyConnection, number: int, row: int) -> None:
    """Which row of the audit log tells of its start: each task that it changes shows that row."""
    await connection.execute(sql("operations/name_audit"), number, row)


async def find_by_key(connection: AnyConnection, tenant: int, key_hash: bytes) -> tuple[Operation, bytes] | None:
    """The operation that the key was used for, and the hash of its request."""
    row = await connection.fetchrow(sql("operations/find_by_key"), tenant, key_hash)
    return None if row is None else (_operation(row), row["body_hash"])


async def count_running(connection: AnyConnection, tenant: int, *, up_to: int) -> int:
    return int(await connection.fetchval(sql("operations/count_running"), tenant, up_to))


async def read_operation(connection: AnyConnection, number: int, tenant: int) -> Operation | None:
    row = await connection.fetchrow(sql("operations/read_operation"), number, tenant)
    return None if row is None else _operation(row)


async def list_operations(
    connection: AnyConnection, tenant: int, *, before: int, limit: int, state: OperationState | None
) -> tuple[Sequence[Operation], int | None]:
    """One page, newest first, and where the next one begins."""
    rows = await connection.fetch(sql("operations/list_operations"), tenant, before, limit + 1, state)
    found = [_operation(row) for row in rows[:limit]]
    return found, found[-1].id if len(rows) > limit else None


async def take_next(connection: AnyConnection) -> Operation | None:
    """The running operation that has waited longest, locked until the transaction ends. None: none is free."""
    row = await connection.fetchrow(sql("operations/take_next"))
    return None if row is None else _operation(row)


async def save_progress(connection: AnyConnection, operation: Operation, made: Progress) -> None:
    """In the transaction of the batch."""
    refusals = dict(operation.refusals)
    for reason, ids in made.refused.items():
        earlier = refusals.get(reason, Refused(0, ()))
        refusals[reason] = Refused(earlier.count + len(ids), (*earlier.ids, *ids)[:MOST_REFUSED_SHOWN])
    await connection.execute(
        sql("operations/save_batch"),
        operation.id,
        made.before_id,
        made.matched,
        made.changed,
        made.ended,
        sum(map(len, made.refused.values())),
        _json(refusals),
    )


async def stop_operation(connection: AnyConnection, number: int, tenant: int) -> bool:
    """False: it does not run."""
    return await connection.fetchval(sql("operations/stop_operation"), number, tenant) is not None


async def fail_operation(connection: AnyConnection, number: int, trouble: str) -> None:
    await connection.execute(sql("operations/fail_operation"), number, trouble)


async def forget_operations(connection: AnyConnection, *, rows: int) -> None:
    """Deletes operations that ended long ago."""
    await connection.execute(sql("operations/forget_operations"), KEPT_DAYS, rows)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _operation(row: asyncpg.Record) -> Operation:
    return Operation(
        id=row["id"],
        tenant=row["tenant"],
        user=row["user_name"],
        verb=Verb(row["verb"]),
        where=msgspec.json.decode(row["asked"], type=dict[str, str | int]),
        selection=msgspec.json.decode(row["selection"], type=Selection),
        changes=msgspec.json.decode(row["changes"] or "{}", type=dict[str, str | int | float]),
        edit=None if row["edit"] is None else msgspec.json.decode(row["edit"], type=Edit),
        before_id=row["before_id"],
        state=OperationState(row["state"]),
        expected=row["expected"],
        or_more=row["or_more"],
        matched=row["matched"],
        changed=row["changed"],
        ended=row["ended"],
        refused=row["refused"],
        refusals=msgspec.json.decode(row["refusals"], type=dict[str, Refused]),
        trouble=row["trouble"],
        created_at=row["created_at"],
        ended_at=row["ended_at"],
        audit=row["audit"],
    )
