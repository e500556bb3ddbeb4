"""Decodes a body: strict JSON, then the structure.

The fast path decodes straight into a structure. If that fails, the body is walked again to report every fault instead
of the first. This module does not know what values mean: `judge/validate.py` does.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from rota.model.errors import Problem, invalid
from rota.model.request.rest import Rest, rest_of
from rota.model.request.structure import text_faults

DEEPEST = 64
MOST_FAULTS = 100

T = TypeVar("T", bound=msgspec.Struct)

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_decoders: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {}


class _Unacceptable(ValueError):
    """Accepted by Python, forbidden by JSON."""


def decode(body: bytes, kind: type[T]) -> T:
    """The body as a `kind`. Raises a Problem with every fault of its structure."""
    value = read(body, kind)
    if isinstance(value, Rest):
        raise invalid(value.structure[:MOST_FAULTS])
    return value


def read(body: bytes, kind: type[T]) -> T | Rest[T]:
    """The body as a `kind`, or what is left of it for the search of other faults. Raises a Problem if it is no JSON."""
    _check_json(body)
    _check_characters(body)
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        value: T = decoder.decode(body)
    except msgspec.DecodeError:
        rest = rest_of(json.loads(body), kind)
        if not rest.structure:
            raise
        return rest
    return value


def _check_json(body: bytes) -> None:
    """Allows RFC 8259 and no more: no duplicate names, no NaN, bounded depth and numbers."""
    if not body.strip():
        raise _malformed("the body is empty; send a JSON document")
    _check_depth(body)
    try:
        # Decoded here because json.loads would also accept UTF-16, a byte order mark and lone surrogates.
        text = body.decode()
        json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise _malformed(f"the body is not UTF-8: byte {error.start} is wrong") from None
    except RecursionError:
        raise _too_complex(f"the body is nested deeper than {DEEPEST} levels") from None
    except _Unacceptable as error:
        raise _malformed(str(error)) from None
    except ValueError:  # Python refuses integers of more than 4,300 digits
        raise _too_complex("a number has too many digits") from None


def _no_duplicates(pairs: list[tuple[str, object]]) -> None:
    if len(pairs) > 1 and len({name for name, _ in pairs}) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Unacceptable(f"the name {name[:80]!r} appears twice in one object")
            seen.add(name)


def _no_constant(text: str) -> NoReturn:
    raise _Unacceptable(f"{text} is not JSON; numbers must be finite")


def _finite(text: str) -> None:
    """`1e400` is JSON, but overflows a float."""
    if math.isinf(float(text)):
        raise _Unacceptable(f"{text[:40]} is too large a number")


def _check_depth(body: bytes) -> None:
    """Removes the innermost brackets, level by level, in C: a batch takes four rounds.

    Brackets that are left after 64 rounds may be inside strings; only then are they counted one by one.
    """
    left = body.translate(None, _NOT_BRACKETS)
    for _ in range(DEEPEST):
        if not left:
            return
        left = left.replace(b"[]", b"").replace(b"{}", b"")
    depth = 0
    for match in _BRACKETS.finditer(body):
        token = match.group()
        if token in (b"[", b"{"):
            depth += 1
            if depth > DEEPEST:
                raise _too_complex(f"the body is nested deeper than {DEEPEST} levels")
        elif token in (b"]", b"}"):
            depth -= 1


def _check_characters(body: bytes) -> None:
    """Refuses NUL, which PostgreSQL can't store, and lone surrogates, which can't be encoded."""
    if b"\\u0000" in body or _SURROGATE.search(body):
        faults = text_faults(json.loads(body))
        if faults:
            raise invalid(faults[:MOST_FAULTS])


def _malformed(detail: str) -> Problem:
    return Problem("malformed-json", status=400, title="The body is not valid JSON", detail=detail)


def _too_complex(detail: str) -> Problem:
    return Problem("json-too-complex", status=400, title="The body is too complex", detail=detail)
