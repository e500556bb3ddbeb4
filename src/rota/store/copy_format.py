"""Rows in PostgreSQL's binary COPY format, so that what a thousand rows share is encoded once and not a thousand times.

A row is the bytes of its fields behind each other; so the tail of one row is, as it stands, the tail of the next.
`values` reads such a row back, for a row that goes alone and is better off as a statement's arguments.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

NULL = struct.pack(">i", -1)
START = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
END = struct.pack(">h", -1)

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT2_OID = 21
_INT8_OID = 20
_BYTEA_OID = 17

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


def _bigints(value: Sequence[int]) -> bytes:
    body = struct.pack(">iiiii", 1, 0, _INT8_OID, len(value), 1) + b"".join(
        struct.pack(">iq", 8, item) for item in value
    )
    return struct.pack(">i", len(body)) + body


def _smallints(value: Sequence[int]) -> bytes:
    body = struct.pack(">iiiii", 1, 0, _INT2_OID, len(value), 1) + b"".join(
        struct.pack(">ih", 2, item) for item in value
    )
    return struct.pack(">i", len(body)) + body


def _byteas(value: Sequence[bytes]) -> bytes:
    body = struct.pack(">iiiii", 1, 0, _BYTEA_OID, len(value), 1) + b"".join(
        struct.pack(">i", len(item)) + item for item in value
    )
    return struct.pack(">i", len(body)) + body


Encode = Callable[[Any], bytes]

_FIELDS: dict[str, Encode] = {
    "bigint": lambda value: _bigint(8, value),
    "integer": lambda value: _integer(4, value),
    "smallint": lambda value: _smallint(2, value),
    "boolean": lambda value: _YES if value else _NO,
    "text": text,
    "json": text,
    "jsonb": _jsonb,
    "timestamptz": _timestamptz,
    "bigint[]": _bigints,
    "smallint[]": _smallints,
    "bytea[]": _byteas,
}


def encoders(types: Iterable[str]) -> tuple[Encode, ...]:
    """How values of these types become fields."""
    return tuple(_FIELDS[kind] for kind in types)


def fields(encoders: Sequence[Encode], values: Sequence[object]) -> bytes:
    """Neighbouring fields of a row. A value that its type can't hold raises struct.error."""
    return b"".join([NULL if value is None else encode(value) for encode, value in zip(encoders, values, strict=True)])


def _array_of(item: Callable[[bytes], object]) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        found, place = [], 20  # behind dimensions, flags, type, length and lower bound
        while place < len(data):
            (size,) = _SIZE.unpack_from(data, place)
            place += 4 + size
            found.append(item(data[place - size : place]))
        return found

    return read


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


_SIZE = struct.Struct(">i")
_VALUES: dict[str, Callable[[bytes], object]] = {
    "bigint": _number,
    "integer": _number,
    "smallint": _number,
    "boolean": lambda data: data != b"\x00",
    "text": bytes.decode,
    "json": bytes.decode,
    "jsonb": lambda data: data[1:].decode(),
    "timestamptz": lambda data: _EPOCH + _number(data) * _MICROSECOND,
    "bigint[]": _array_of(_number),
    "smallint[]": _array_of(_number),
    "bytea[]": _array_of(bytes),
}


def values(types: Sequence[str], row: bytes) -> list[object]:
    """What `fields` was given, from a whole row: the number of its fields, then each of them."""
    found: list[object] = []
    place = 2
    for kind in types:
        (size,) = _SIZE.unpack_from(row, place)
        place += 4
        if size < 0:
            found.append(None)
            continue
        found.append(_VALUES[kind](row[place : place + size]))
        place += size
    return found


def row_start(columns: int) -> Callable[[int], bytes]:
    """For rows that begin with a bigint: the number of fields, and that first one."""
    pack = struct.Struct(">hiq").pack
    return lambda first: pack(columns, 8, first)
