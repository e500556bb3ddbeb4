"""COPY's rows read back: what goes in as bytes for many is the same as what goes in as arguments for one."""

from __future__ import annotations

from datetime import UTC, datetime

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
        max_size=12,
    )
)
def test_a_row_reads_back_as_what_it_was_made_of(columns: list[tuple[str, object]]) -> None:
    types, values = [kind for kind, _ in columns], [value for _, value in columns]
    row = len(columns).to_bytes(2, "big") + copy_format.fields(copy_format.encoders(types), values)
    assert copy_format.values(types, row) == values
