"""The strict decoder against Python's own: it takes what is JSON, and refuses everything else with a Problem."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rota.admit.body import DEEPEST, decode
from rota.model.errors import Problem
from rota.model.request.task_request import BatchRequest, TaskRequest

SETTINGS = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


class Anything(msgspec.Struct):
    value: msgspec.Raw


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


def _refused(body: bytes, kind: type[msgspec.Struct] = Anything) -> Problem | None:
    try:
        decode(body, kind)
    except Problem as problem:
        return problem
    return None


@given(values, st.sampled_from([None, 1]), st.booleans())
@SETTINGS
def test_what_python_writes_is_taken_and_means_the_same(value: Any, indent: int | None, ascii_only: bool) -> None:
    # Invariant: every JSON value, however it is laid out and escaped, passes unchanged.
    body = json.dumps({"value": value}, indent=indent, ensure_ascii=ascii_only).encode()
    assert json.loads(bytes(decode(body, Anything).value)) == value


def _strictly(body: bytes) -> str:
    """What Python says, made strict by other means: `taken`, or the kind of refusal."""

    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("repeated")
        return dict(pairs)

    def finite(text: str) -> float:
        if float(text) in (float("inf"), float("-inf")):
            raise ValueError("infinite")
        return float(text)

    def refuse(text: str) -> None:
        raise ValueError(text)

    try:
        text = body.decode("utf-8", "strict")
        value = json.loads(text, object_pairs_hook=no_repeats, parse_float=finite, parse_constant=refuse)
    except (ValueError, RecursionError):
        return "malformed"
    if not isinstance(value, dict) or "value" not in value:
        return "invalid"
    return "taken" if _storable(value) else "invalid"


def _storable(value: Any) -> bool:
    match value:
        case str():
            return "\0" not in value and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in value)
        case list():
            return all(_storable(item) for item in value)
        case dict():
            return all(_storable(name) and _storable(item) for name, item in value.items())
        case _:
            return True


pieces = st.sampled_from(
    [b"{", b"}", b"[", b"]", b",", b":", b'"value"', b'"a"', b"1", b"-0", b"1.5e3", b"1e400", b"01", b"NaN",
     b"-Infinity", b"true", b"null", b" ", b"\n", b"\xef\xbb\xbf", b'"\\u0000"', b'"\\ud83d\\ude00"', b'"\\ud83d"', b'"\xff"',
     b'"\xed\xa0\x80"', b'"\t"', b"'x'", b"//", b'"\\x"', b'{"value":', b"[[]]"]
)  # fmt: skip


@given(st.lists(pieces, max_size=12).map(b"".join) | st.binary(max_size=30))
@example(b"")
@example('{"value":1}'.encode("utf-16"))
@example(b'\xef\xbb\xbf{"value":1}')
@example(b'{"value":1,"value":2}')
@example(b'{"value":{"a":1,"a":1}}')
@example(b'{"value":1e400}')
@example(b'{"\\ud800":1}')
@example(b'{"value":1}{}')
@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_are_taken_or_refused_as_a_strict_reading_of_python_would(body: bytes) -> None:
    # Invariant: the same verdict as Python's reader made strict; a refusal is 400 for syntax and 422 for meaning.
    problem = _refused(body)
    said = "taken" if problem is None else "malformed" if problem.status == 400 else "invalid"
    assert said == _strictly(body)
    if problem is not None:
        msgspec.json.encode([problem.detail, [[fault.pointer, fault.detail] for fault in problem.faults]])


@given(st.integers(1, 200), st.sampled_from(["[]", "{}"]), st.booleans())
@SETTINGS
def test_depth_is_counted_exactly_and_brackets_in_strings_do_not_count(depth: int, kind: str, strings: bool) -> None:
    # Invariant: 64 levels pass and 65 do not, whatever strings are full of.
    inner = json.dumps("[" * 300) if strings else "1"
    for _ in range(depth):
        inner = f"[{inner}]" if kind == "[]" else f'{{"a":{inner}}}'
    problem = _refused(f'{{"value":{inner}}}'.encode())
    if depth + 1 <= DEEPEST:
        assert problem is None
    else:
        assert problem is not None
        assert (problem.status, problem.slug) == (400, "json-too-complex")


wrong = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from([*TaskRequest.__struct_fields__, "nonsense", "Command"])


@given(st.dictionaries(fields, wrong, max_size=6) | wrong, st.booleans())
@SETTINGS
def test_any_json_is_a_request_or_a_problem_that_can_be_sent(value: Any, batch: bool) -> None:
    # Invariant: whatever JSON is sent, the answer is a request or a Problem with at least one fault and a pointer each.
    body = json.dumps({"tasks": [value]} if batch else value).encode()
    problem = _refused(body, BatchRequest if batch else TaskRequest)
    if problem is not None:
        assert problem.status in (400, 422)
        assert problem.status == 400 or problem.faults
        assert all(fault.pointer == "" or fault.pointer.startswith("/") for fault in problem.faults)
        msgspec.json.encode([problem.detail, [[fault.pointer, fault.detail] for fault in problem.faults]])
