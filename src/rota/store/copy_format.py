"""PostgreSQL's binary COPY format, so that values that a thousand rows share are encoded once.

A row is the concatenation of its encoded fields, so the encoded tail of one row can be the tail of the next.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

NULL = struct.pack(">i", -1)
START = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
END = struct.pack(">h", -1)

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_length = struct.Struct(">i").pack
_bigint = struct.Struct(">iq").pack
_integer = struct.Struct(">ii").pack
_smallint = struct.Struct(">ih").pack
_YES, _NO = struct.pack(">i?", 1, True), struct.pack(">i?", 1, False)


def text(value: str) -> bytes:
    data = value.encode()
    return _length(len(data)) + data


def _jsonb(value: str) -> bytes:
    data = value.encode()
    return _length(len(data) + 1) + b"\x01" + data


def _timestamptz(value: datetime) -> bytes:
    return _bigint(8, (value - _EPOCH) // _MICROSECOND)


def _bytea(value: bytes) -> bytes:
    return _length(len(value)) + value


Encode = Callable[[Any], bytes]


def _array(item_oid: int, encode_item: Encode) -> Encode:
    def encode(values: Sequence[object]) -> bytes:
        body = struct.pack(">iiiii", 1, 0, item_oid, len(values), 1) + b"".join(map(encode_item, values))
        return _length(len(body)) + body

    return encode


_FIELDS: dict[str, Encode] = {
    "bigint": lambda value: _bigint(8, value),
    "integer": lambda value: _integer(4, value),
    "smallint": lambda value: _smallint(2, value),
    "boolean": lambda value: _YES if value else _NO,
    "text": text,
    "json": text,
    "jsonb": _jsonb,
    "timestamptz": _timestamptz,
}
_FIELDS |= {
    "bigint[]": _array(20, _FIELDS["bigint"]),
    "smallint[]": _array(21, _FIELDS["smallint"]),
    "bytea[]": _array(17, _bytea),
}


class Columns:
    """Neighbouring columns of a table: name=type."""

    def __init__(self, **types: str) -> None:
        self.names = tuple(types)
        self._encoders = tuple(_FIELDS[kind] for kind in types.values())

    def encode(self, values: Sequence[object]) -> bytes:
        """The fields of a row. A value that its type can't hold raises struct.error."""
        return b"".join(
            [NULL if value is None else encode(value) for encode, value in zip(self._encoders, values, strict=True)]
        )


def row_start(columns: int) -> Callable[[int], bytes]:
    """Begins a row whose first column is a bigint: the number of fields, then that value."""
    pack = struct.Struct(">hiq").pack
    return lambda first: pack(columns, 8, first)
