"""Masking of secrets: however a stream is cut, the same comes out, and no value with it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.execute.messages.masking import Masker, mask_bytes, mask_cut_text, mask_json, mask_text, masks_of, patterns_of
from rota.model.secret import Secret

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True)

# A small alphabet makes values that overlap themselves and each other, and output full of their beginnings.
letters = st.sampled_from([b"a", b"b", b"\n"])
words = st.lists(letters, min_size=8, max_size=14).map(b"".join)
patterns = st.lists(words, min_size=1, max_size=3, unique=True)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Some values, and output made of pieces of them and other letters, in chunks."""
    values = draw(patterns)
    piece = st.sampled_from(values).flatmap(
        lambda value: st.builds(lambda first, last: value[first:last], st.integers(0, 4), st.integers(6, len(value)))
    )
    stream = b"".join(draw(st.lists(st.sampled_from(values) | piece | letters, max_size=20)))
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    return values, [stream[first:last] for first, last in itertools.pairwise(edges)]


def _plainly(stream: bytes, values: list[bytes]) -> bytes:
    """The rule as it is written: every byte of an occurrence is covered, overlapping occurrences are one stretch."""
    found = sorted((at, at + len(v)) for v in values for at in range(len(stream)) if stream[at : at + len(v)] == v)
    out, end = b"", 0
    for start, stop in found:
        if start >= end:
            out += stream[end:start] + b"***"
        end = max(end, stop)
    return out + stream[end:]


@given(cut_streams())
@SETTINGS
@example(([b"aaaaaaaa"], [b"a" * 7, b"a" * 30, b"a"]))
@example(([b"aaaaaaaab", b"abaaaaaaaa"], [b"aaaaaaaaba", b"aaaaaaab"]))
def test_any_cut_of_a_stream_is_masked_by_the_rule(case: tuple[list[bytes], list[bytes]]) -> None:
    # Invariant: masking is a function of the whole stream, not of its pieces, and no value is left in it.
    values, chunks = case
    masker = Masker(values)
    out = b"".join([masker.feed(chunk) for chunk in chunks] + [masker.finish()])
    assert out == _plainly(b"".join(chunks), values) == mask_bytes(b"".join(chunks), values)
    assert not any(value in out for value in values)


@given(cut_streams())
@SETTINGS
def test_what_is_held_back_is_less_than_a_value(case: tuple[list[bytes], list[bytes]]) -> None:
    # Invariant: memory is bounded by the longest value, and plain output is not delayed.
    values, chunks = case
    masker = Masker(values)
    for chunk in chunks:
        masker.feed(chunk)
        assert len(masker._kept_back) < max(map(len, values))
        assert not masker._kept_back or any(value.startswith(masker._kept_back) for value in values)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**9) | st.text('ab\n"é12345678', max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.text('ab\n"é12345678', min_size=8, max_size=10))
@SETTINGS
@example([1, 2, 3, 4, 5], "1,2,3,4,5")
@example({"n": 12345678}, "12345678")
@example(["x", "line\nline\nline\n"], "line\nline\nline\n")
def test_a_masked_result_is_json_without_the_value(value: object, secret: str) -> None:
    # Invariant: whatever a function returns stays JSON, and its text holds the value in none of its forms.
    forms = patterns_of([Secret("TOKEN", secret)])
    masked = mask_json(json.dumps(value, ensure_ascii=False).encode(), forms)
    json.loads(masked)
    assert not any(form in masked for form in forms)


def test_a_value_is_found_in_the_forms_people_print_it() -> None:
    forms = patterns_of([Secret("PEM", 'first "line"\nsecond línea\n')])
    for text in (
        'first "line"\nsecond línea',
        json.dumps({"k": 'first "line"\nsecond línea'}),
        repr({'first "line"\nsecond línea'}),
    ):
        masked = mask_text(text, forms)
        assert "***" in masked
        assert "second" not in masked


@pytest.mark.parametrize("value", ["short", "1234567", "   x   \n      "])
def test_short_values_are_left_alone_and_cost_nothing(value: str) -> None:
    assert patterns_of([Secret("S", value)]) == ()
    assert masks_of([Secret("S", value)]) is None
    assert masks_of(()) is None


def test_half_a_value_at_the_end_is_given_out_at_the_end() -> None:
    masker = Masker((b"hunter2hunter2",))
    assert (masker.feed(b"it is hunter2"), masker.feed(b"hunter2!"), masker.finish()) == (b"it is ", b"***!", b"")
    assert (masker.feed(b"it is hunter"), masker.finish()) == (b"it is ", b"hunter")


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0B\n  AQEFAASCBKgwggSkAgEAAoIB\r\nshort\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "printed",
    [
        " ".join(PEM.split("\n")),  # echo $PEM
        PEM.replace("\n", "\n    "),
        PEM.replace("\n", "\r\n"),
        "\n".join(reversed(PEM.splitlines())),
        json.dumps(PEM.splitlines()),
        repr(PEM.splitlines()),
    ],
    ids=["words", "indented", "crlf", "reversed", "json", "repr"],
)
def test_each_line_of_a_value_is_masked_however_the_lines_are_put_together(printed: str) -> None:
    masked = mask_text(printed, patterns_of([Secret("PEM", PEM)]))
    assert not any(part in masked for part in ("PRIVATE", "MIIEvg", "wggSkAg"))
    assert "short" in masked  # as short values are: it would be found in everything


def test_no_more_lines_are_masked_than_the_largest_value_has_as_a_key() -> None:
    secrets = [Secret(f"S{n}", "\n".join(f"line {m:04} of secret {n}" for m in range(2000))) for n in range(2)]
    assert len(patterns_of(secrets)) <= 1024 + 2 * 2  # the lines, and both values in the two forms they have


def test_the_half_of_a_value_at_the_end_of_a_text_that_was_cut_is_masked() -> None:
    patterns = patterns_of([Secret("A", "hunter2hunter2")])
    assert mask_cut_text("epoch 4: hunter2hun", patterns) == "epoch 4: ***"
    assert mask_cut_text("hunter2hunter2 and on", patterns) == "*** and on"
