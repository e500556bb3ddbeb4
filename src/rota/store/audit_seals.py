"""Seals of the audit log: writes them, one server node at a time, in the order of (xid, id), and reads them.

Rows are taken below the oldest transaction under way, where none can appear any more: a transaction that stays open for
long is sealed later, in order, without a gap. A restored database may count transactions from a smaller number on; its
new rows are told from the sealed ones by their ids (`least_id`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import asyncpg

from rota.store.audit_sums import NO_HASH, Seal, digest, hash_of
from rota.store.database import AnyConnection
from rota.store.statements import sql

MOST_ROWS = 1_000  # of a seal
MOST_COUNTED = 100_000  # of rows that are not sealed


@dataclass(frozen=True, slots=True)
class Outside:
    """Rows that no seal covers: how many, since when, and the first of their ids."""

    number: int
    since: datetime | None
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """A month that was dropped, as 2030-01, and the last seal that went with it or before."""

    month: str
    number: int | None
    hash: str | None


async def seal_rows(connection: AnyConnection, *, most: int = MOST_ROWS) -> int:
    """Seals the next rows, at most so many. Returns how many; 0: there are none, or another node is at it."""
    async with connection.transaction():
        if not await connection.fetchval(sql("audit_seals/try_seal_lock")):
            return 0
        # In the order of the index, however many rows wait: a sort would read all of them for each seal.
        await connection.execute("set local enable_sort = off")
        last = await newest_seal(connection)
        start, rows = await _next_rows(connection, last, most)
        if not rows:
            return 0
        now: datetime = await connection.fetchval(sql("audit_seals/now"))
        for seal in seals_of(rows, last, start, now):
            await _insert(connection, seal)
    return len(rows)


@dataclass(frozen=True, slots=True)
class Start:
    """Where the next seal begins."""

    xid: int = 0
    id: int = 0
    least_id: int = 0


async def _next_rows(connection: AnyConnection, last: Seal | None, most: int) -> tuple[Start, list[asyncpg.Record]]:
    start = Start() if last is None else Start(last.to_xid, last.to_id, last.least_id)
    if last is not None and await connection.fetchval(
        sql("audit_seals/restored"), last.to_xid, last.to_id, last.most_id
    ):
        rows = await connection.fetch(sql("audit_seals/restored_rows"), last.most_id, last.to_xid, last.to_id, most)
        if rows:
            return start, rows
        start = Start(least_id=last.most_id + 1)
    rows = await connection.fetch(sql("audit_seals/unsealed_rows"), start.xid, start.id, start.least_id, most)
    return start, rows


def seals_of(rows: Sequence[Any], last: Seal | None, start: Start, now: datetime) -> list[Seal]:
    """The seals of rows in the order of (xid, id): one for each day. Days never go back."""
    seals: list[Seal] = []
    part: list[Any] = []
    day = date.min if last is None else last.day
    for row in rows:
        own = row["at"].astimezone(UTC).date()
        if own > day and part:
            seals.append(_seal(part, day, seals[-1] if seals else last, start, now))
            start, part = replace(start, xid=seals[-1].to_xid, id=seals[-1].to_id), []
        day = max(day, own)
        part.append(row)
    seals.append(_seal(part, day, seals[-1] if seals else last, start, now))
    return seals


def _seal(rows: Sequence[Any], day: date, previous: Seal | None, start: Start, now: datetime) -> Seal:
    ids = tuple(row["id"] for row in rows)
    earlier = [row for row in rows if month_of(row["at"]) < day.year * 100 + day.month]
    seal = Seal(
        number=1 if previous is None else previous.number + 1,
        day=day,
        at=now,
        after_xid=start.xid,
        after_id=start.id,
        to_xid=int(rows[-1]["xid"]),
        to_id=rows[-1]["id"],
        least_id=start.least_id,
        most_id=max((*ids, previous.most_id if previous else 0)),
        ids=ids,
        earlier=tuple(row["id"] for row in earlier),
        earlier_months=tuple(month_of(row["at"]) for row in earlier),
        digests=b"".join(map(digest, rows)),
        previous=NO_HASH if previous is None else previous.hash,
    )
    return replace(seal, hash=hash_of(seal))


def month_of(moment: datetime) -> int:
    """As 203001."""
    utc = moment.astimezone(UTC)
    return utc.year * 100 + utc.month


async def _insert(connection: AnyConnection, seal: Seal) -> None:
    await connection.execute(
        sql("audit_seals/insert_seal"),
        seal.number,
        seal.day,
        seal.at,
        seal.version,
        seal.after_xid,
        seal.after_id,
        seal.to_xid,
        seal.to_id,
        seal.least_id,
        seal.most_id,
        list(seal.ids),
        list(seal.earlier),
        list(seal.earlier_months),
        seal.digests,
        seal.previous,
        seal.hash,
    )


# ---- reading --------------------------------------------------------------------------------------------------------


async def newest_seal(connection: AnyConnection) -> Seal | None:
    return _one(await connection.fetchrow(sql("audit_seals/newest_seal")))


async def oldest_seal(connection: AnyConnection) -> Seal | None:
    return _one(await connection.fetchrow(sql("audit_seals/oldest_seal")))


async def read_seal(connection: AnyConnection, number: int) -> Seal | None:
    return _one(await connection.fetchrow(sql("audit_seals/read_seal"), number))


async def read_seals(connection: AnyConnection, *, after: int, limit: int) -> list[Seal]:
    """In order, those with larger numbers than `after`."""
    return [_seal_of(row) for row in await connection.fetch(sql("audit_seals/read_seals"), after, limit)]


async def first_of_day(connection: AnyConnection, day: date) -> int | None:
    """The number of the first seal of this day or a later one."""
    number: int | None = await connection.fetchval(sql("audit_seals/first_of_day"), day)
    return number


async def rows_between(connection: AnyConnection, seal: Seal, below_id: int | None) -> list[asyncpg.Record]:
    """All rows that the seal covers by its range. `below_id`: from which on rows count transactions anew."""
    return await connection.fetch(
        sql("audit_seals/rows_between"),
        seal.after_xid,
        seal.after_id,
        seal.to_xid,
        seal.to_id,
        seal.least_id,
        below_id,
    )


async def rows_by_id(connection: AnyConnection, ids: Sequence[int]) -> list[asyncpg.Record]:
    return await connection.fetch(sql("audit_seals/rows_by_id"), ids)


async def next_least_id(connection: AnyConnection, least_id: int) -> int | None:
    number: int | None = await connection.fetchval(sql("audit_seals/next_least_id"), least_id)
    return number


async def rows_after(connection: AnyConnection, seal: Seal, below_id: int | None, shown: int) -> Outside:
    row = await connection.fetchrow(
        sql("audit_seals/rows_after"), seal.to_xid, seal.to_id, seal.least_id, below_id, shown, MOST_COUNTED
    )
    assert row is not None, "a count has a row"
    return Outside(row["number"], row["since"], tuple(row["ids"] or ()))


async def rows_before(connection: AnyConnection, seal: Seal, below_id: int | None, shown: int) -> list[int]:
    rows = await connection.fetch(
        sql("audit_seals/rows_before"), seal.after_xid, seal.after_id, seal.least_id, below_id, shown
    )
    return [row["id"] for row in rows]


async def last_drop(connection: AnyConnection) -> Drop | None:
    row = await connection.fetchrow(sql("audit_seals/last_drop"))
    return None if row is None else Drop(**row)


def _one(row: asyncpg.Record | None) -> Seal | None:
    return None if row is None else _seal_of(row)


def _seal_of(row: asyncpg.Record) -> Seal:
    lists = {name: tuple(row[name]) for name in ("ids", "earlier", "earlier_months")}
    return Seal(**{**dict(row), **lists})
