"""Rows of the audit log as JSON lines or CSV, a page at a time, so that a log of any length needs little memory.

What people and programs call themselves is foreign text: in CSV no control character leaves this module, and no cell
begins as a formula does in spreadsheets.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

import msgspec

from rota.api.answers import instant
from rota.model.answers.audit import AuditEntry
from rota.store.audit import AuditFilter, all_oldest, place_of
from rota.store.database import Database

ROWS_A_PAGE = 1_000
JSON_LINES = "jsonl"
CSV = "csv"
FORMATS = (JSON_LINES, CSV)
COLUMNS = AuditEntry.__struct_fields__
_FORMULA = ("=", "+", "-", "@")
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

Encode = Callable[[Sequence[AuditEntry]], bytes]


async def exported(
    database: Database,
    wanted: AuditFilter,
    encode: Encode,
    entries_of: Callable[[Sequence[object]], list[AuditEntry]],
    *,
    after: tuple[datetime, int],
    heading: bytes = b"",
) -> AsyncIterator[bytes]:
    """Everything after a place in the log, oldest first. No connection is held while the client reads."""
    if heading:
        yield heading
    while True:
        async with database.engine() as connection:
            page = await all_oldest(connection, wanted, after=after, limit=ROWS_A_PAGE)
            following = None if page.next is None else await place_of(connection, page.next, wanted.tenant)
        if page.rows:
            yield encode(entries_of(page.rows))
        if following is None:
            return
        after = following


def json_lines(entries: Sequence[AuditEntry]) -> bytes:
    return b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)


def csv_lines(entries: Sequence[AuditEntry]) -> bytes:
    """One line an entry, because no cell has a line break."""
    return _written([_cell(getattr(entry, name)) for name in COLUMNS] for entry in entries)


def csv_heading() -> bytes:
    return _written([list(COLUMNS)])


def _written(rows: object) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().encode()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return instant(value) or ""
    if isinstance(value, dict | msgspec.Raw):
        value = msgspec.json.encode(value).decode()
    if not isinstance(value, str):
        return str(value)
    text = _UNSAFE.sub(_written_out, value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
