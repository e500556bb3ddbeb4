"""Reads an export of the audit log, line by line, and resumes a broken one after the last whole row. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rota.client.calls.call import Call, query_of
from rota.client.errors import ServerFault


class _Numbered(msgspec.Struct):
    id: int


class AuditReader:
    """The lines of an export. Each is one row, of CSV also the heading; the row's id comes first in it."""

    follow = False
    ended = False

    def __init__(self, filters: Mapping[str, str | None], *, csv: bool) -> None:
        self._query = query_of({**filters, "format": "csv" if csv else "jsonl"})
        self._csv = csv
        self.last_id: int | None = None

    def next_call(self) -> Call[bytes]:
        query = {**self._query, **({} if self.last_id is None else {"after": str(self.last_id)})}
        accept = "text/csv" if self._csv else "application/x-ndjson"
        return Call("GET", "/v1/audit/export", bytes, query=query, headers={"Accept": accept}, repeatable=True)

    def take(self, line: str) -> str | None:
        if not line:
            return None
        if self._csv:
            number = line.partition(",")[0]
            if number.isdigit():
                self.last_id = int(number)
            return line
        try:
            self.last_id = msgspec.json.decode(line, type=_Numbered).id
        except msgspec.MsgspecError as error:
            raise ServerFault(f"a row of the audit log cannot be read: {error}") from None
        return line
