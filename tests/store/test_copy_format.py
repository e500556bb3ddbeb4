"""Fields of COPY: each is read back, by this file's own reader, as the value that it was made of."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rota.store import copy_format

_INTEGERS = {"bigint": 63, "integer": 31, "smallint": 15}
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_VALUES: dict[str, st.SearchStrategy[object]] = {
    **{kind: st.integers(-(2**bits), 2**bits - 1) for kind, bits in _INTEGERS.items()},
    "boolean": st.booleans(),
    **dict.fromkeys(("text", "json", "jsonb"), _TEXTS),
    "timestamptz": st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    "bigint[]": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    "smallint[]": st.lists(st.integers(-(2**15), 2**15 - 1), max_size=4),
    "bytea[]": st.lists(st.binary(max_size=8), max_size=4),
}


@given(
    st.lists(
        st.sampled_from(sorted(_VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), st.none() | _VALUES[kind])),
        min_size=1,
        max_size=12,
    )
)
def test_a_row_reads_back_as_what_it_was_made_of(columns: list[tuple[str, object]]) -> None:
    types, values = [kind for kind, _ in columns], [value for _, value in columns]
    row = copy_format.Columns(**{f"c{index}": kind for index, kind in enumerate(types)}).encode(values)
    assert _read(types, row) == values


def test_a_row_begins_with_the_number_of_its_columns_and_the_first_of_them() -> None:
    assert copy_format.row_start(3)(7) == struct.pack(">hiq", 3, 8, 7)


def _read(types: Sequence[str], row: bytes) -> list[object]:
    found: list[object] = []
    at = 0
    for kind in types:
        (size,) = struct.unpack_from(">i", row, at)
        at += 4
        if size < 0:
            found.append(None)
            continue
        found.append(_READERS[kind](row[at : at + size]))
        at += size
    assert at == len(row)
    return found


def _array_of(item: Callable[[bytes], object]) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        found, at = [], 20  # behind dimensions, flags, type, length and lower bound
        while at < len(data):
            (size,) = struct.unpack_from(">i", data, at)
            at += 4 + size
            found.append(item(data[at - size : at]))
        return found

    return read


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


_READERS: dict[str, Callable[[bytes], object]] = {
    "bigint": _number,
    "integer": _number,
    "smallint": _number,
    "boolean": lambda data: data != b"\x00",
    "text": bytes.decode,
    "json": bytes.decode,
    "jsonb": lambda data: data[1:].decode(),
    "timestamptz": lambda data: datetime(2000, 1, 1, tzinfo=UTC) + _number(data) * timedelta(microseconds=1),
    "bigint[]": _array_of(_number),
    "smallint[]": _array_of(_number),
    "bytea[]": _array_of(bytes),
}
