"""Compares the audit log with its seals, a part of the chain at a time, and says exactly what does not fit.

It changes nothing, and it trusts nothing but the order of the seals that it finds: who owns the database can also write
a new chain from some row on. That is found with a head that was written down elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from rota.store import audit_seals
from rota.store.audit_sums import DIGEST_BYTES, NO_HASH, VERSION, Seal, digest, hash_of, head_of
from rota.store.database import AnyConnection

SEALS_AT_ONCE = 20
MOST_SHOWN = 1_000  # ids of a finding

What = Literal["changed", "missing", "inserted", "seal-changed", "seal-missing", "chain-broken", "no-beginning"]


@dataclass(frozen=True, slots=True)
class Finding:
    what: What
    detail: str
    seal: int | None = None
    rows: tuple[int, ...] = ()


@dataclass(slots=True)
class Part:
    """What was verified, and what does not fit. `next`: the next part comes after this seal; None: that was all."""

    seals: int = 0
    rows: int = 0
    findings: list[Finding] = field(default_factory=list)
    next: int | None = None
    head: str | None = None  # of the last seal of this part
    unsealed: int = 0  # rows after the last seal
    unsealed_since: datetime | None = None

    def found(self, what: What, detail: str, seal: int | None = None, rows: Sequence[int] = ()) -> None:
        self.findings.append(Finding(what, detail, seal, tuple(sorted(rows)[:MOST_SHOWN])))


async def verify_part(connection: AnyConnection, *, after: int | None, seals: int = SEALS_AT_ONCE) -> Part:
    """Verifies the seals after this number, at most so many. None: from the oldest that is kept.

    One snapshot for all of it, so that a month that is dropped meanwhile is no finding.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        return await _verify(connection, after, seals)


async def _verify(connection: AnyConnection, after: int | None, seals: int) -> Part:
    part = Part()
    oldest = await audit_seals.oldest_seal(connection)
    if oldest is None:
        await _verify_end(connection, part, None)
        return part
    previous: Seal | None = None
    if after is None or after < oldest.number:
        await _verify_beginning(connection, part, oldest)
        after = oldest.number - 1
    else:
        previous = await audit_seals.read_seal(connection, after)
    found = await audit_seals.read_seals(connection, after=after, limit=seals + 1)
    below = {least: await audit_seals.next_least_id(connection, least) for least in {one.least_id for one in found}}
    for seal in found[:seals]:
        _verify_link(part, previous, seal, expected=after + 1)
        await _verify_rows(connection, part, seal, below[seal.least_id])
        if previous is not None and seal.least_id > previous.least_id:  # the database was restored between them
            await _verify_rest(connection, part, previous, seal.least_id)
        previous, after = seal, seal.number
    if previous is not None:
        part.head = head_of(previous)
    if len(found) > seals:
        part.next = after
    else:
        await _verify_end(connection, part, previous)
    return part


async def _verify_beginning(connection: AnyConnection, part: Part, oldest: Seal) -> None:
    below = await audit_seals.next_least_id(connection, oldest.least_id)
    stray = await audit_seals.rows_before(connection, oldest, below, MOST_SHOWN)
    if stray:
        part.found("inserted", "these rows are older than the first seal that is kept", oldest.number, stray)
    dropped = await audit_seals.last_drop(connection)
    expected = (0, NO_HASH.hex()) if dropped is None or dropped.number is None else (dropped.number, dropped.hash)
    if (oldest.number - 1, oldest.previous.hex()) != expected:
        known = f"the months that were dropped ended with seal {expected[0]}" if dropped else "no month was dropped"
        part.found("no-beginning", f"the chain begins with seal {oldest.number}, but {known}", oldest.number)


def _verify_link(part: Part, previous: Seal | None, seal: Seal, *, expected: int) -> None:
    if seal.number != expected:
        last = seal.number - 1
        which = f"seal {expected} is" if expected == last else f"seals {expected} to {last} are"
        part.found("seal-missing", f"{which} missing", expected)
    elif previous is not None and seal.previous != previous.hash:
        part.found("chain-broken", f"it does not name the hash of seal {previous.number}", seal.number)
    elif previous is not None and not _follows(previous, seal):
        part.found("chain-broken", f"its rows do not follow those of seal {previous.number}", seal.number)
    if seal.version != VERSION:
        part.found(
            "seal-changed", f"it is of version {seal.version}, which this server node does not know", seal.number
        )
    elif seal.hash != hash_of(seal) or len(seal.digests) != DIGEST_BYTES * len(seal.ids):
        part.found("seal-changed", "its hash is not that of what it holds", seal.number)


def _follows(previous: Seal, seal: Seal) -> bool:
    if seal.day < previous.day:
        return False
    if seal.least_id > previous.least_id:
        return (seal.after_xid, seal.after_id) == (0, 0) and seal.least_id == previous.most_id + 1
    return (seal.after_xid, seal.after_id) == (previous.to_xid, previous.to_id) and seal.least_id == previous.least_id


async def _verify_rows(connection: AnyConnection, part: Part, seal: Seal, below: int | None) -> None:
    there = {row["id"]: row for row in await audit_seals.rows_between(connection, seal, below)}
    inserted = there.keys() - set(seal.ids)
    absent = [number for number in seal.ids if number not in there]
    moved = {row["id"]: row for row in await audit_seals.rows_by_id(connection, absent)} if absent else {}
    changed = await asyncio.to_thread(_changed, seal, {**there, **moved})
    gone = await _dropped(connection, seal) if absent else frozenset()
    missing = [number for number in absent if number not in moved and number not in gone]
    part.seals += 1
    part.rows += len(seal.ids)
    if changed:
        part.found("changed", "these rows are not as they were sealed", seal.number, changed)
    if missing:
        part.found("missing", "these rows were sealed and are gone", seal.number, missing)
    if inserted:
        part.found("inserted", "these rows were added later among sealed ones", seal.number, list(inserted))


def _changed(seal: Seal, rows: Mapping[int, Any]) -> list[int]:
    return [
        number
        for position, number in enumerate(seal.ids)
        if number in rows and digest(rows[number]) != seal.digest_of(position)
    ]


async def _dropped(connection: AnyConnection, seal: Seal) -> frozenset[int]:
    """Of a seal's rows, those of earlier months that were dropped."""
    dropped = await audit_seals.last_drop(connection) if seal.earlier else None
    if dropped is None:
        return frozenset()
    months = zip(seal.earlier, seal.earlier_months, strict=False)
    return frozenset(number for number, month in months if month <= int(dropped.month.replace("-", "")))


async def _verify_rest(connection: AnyConnection, part: Part, last: Seal, below: int) -> None:
    """After the last seal of a count of transactions that ended with the restore of the database."""
    rest = await audit_seals.rows_after(connection, last, below, MOST_SHOWN)
    if rest.number:
        part.found(
            "inserted", "these rows belong before the restore of the database, but no seal has them", None, rest.ids
        )


async def _verify_end(connection: AnyConnection, part: Part, last: Seal | None) -> None:
    nothing = last or Seal(
        number=0,
        day=datetime.min.date(),
        at=datetime.min,
        after_xid=0,
        after_id=0,
        to_xid=0,
        to_id=0,
        least_id=0,
        most_id=0,
        ids=(),
        earlier=(),
        earlier_months=(),
        digests=b"",
        previous=NO_HASH,
    )
    rest = await audit_seals.rows_after(connection, nothing, None, 1)
    part.unsealed, part.unsealed_since = rest.number, rest.since


async def has_head(connection: AnyConnection, head: str) -> bool:
    """Whether the chain has a seal with the number and the hash that were written down."""
    number = head.partition(":")[0]
    seal = await audit_seals.read_seal(connection, int(number))
    return seal is not None and head_of(seal) == head
