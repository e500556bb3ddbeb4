"""The audit log: rows are inserted by the transaction of what they tell of, and never changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.model.audit import Entry
from rota.store.database import AnyConnection
from rota.store.statements import sql

_NUL = "\\u0000"  # PostgreSQL has none in text


def json_of(entries: Sequence[Entry]) -> str:
    """The argument of the statements that write entries."""
    text = msgspec.json.encode(entries).decode()
    return text.replace(_NUL, "\\ufffd") if _NUL in text else text


async def record(connection: AnyConnection, *entries: Entry) -> None:
    """Writes entries, in the transaction of what they tell of."""
    await connection.execute(sql("audit/record"), json_of(entries))
