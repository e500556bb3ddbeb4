"""The notation of arrays."""

from __future__ import annotations

import pytest

from rota.model.request.array import Array, array_of


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("0-3", Array((0, 1, 2, 3))),
        ("0-999%50", Array(tuple(range(1000)), 50)),
        ("1,5, 9", Array((1, 5, 9))),
        ("0-90:30,7%1", Array((0, 30, 60, 90, 7), 1)),
    ],
)
def test_ranges_steps_and_lists_are_read(text: str, array: Array) -> None:
    assert array_of(text) == array


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a range"), ("a-b", "is not a range"), ("-1", "is not a range"), ("5-1", "is an empty range"),
        ("0-9:0", "is an empty range"), ("0-9%0", "at once"), ("0-9%", "at once"), ("0-9%x", "at once"),
        ("1,1", "twice"), ("0-10000", "at most 10,000"), ("0-9999999999", "is an empty range"), ("١-٣", "is not a range"),
    ],
)  # fmt: skip
def test_a_bad_array_is_refused_with_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        array_of(text)
