"""From bytes to requests: strict JSON first, then the structure, with every fault found at once.

The fast path decodes straight into `TaskRequest`. Only when that fails is the body walked again, slowly, to name all
faults rather than the first. Nothing here knows what the values mean; `validate` does.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import inspect

from rota.model.errors import Fault, Problem, invalid

DEEPEST = 64
MOST_FAULTS = 100

T = TypeVar("T", bound=msgspec.Struct)

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_decoders: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {}


class _Unacceptable(ValueError):
    """Python reads it, JSON does not allow it."""


def decode(body: bytes, kind: type[T]) -> T:
    """The body as `kind`, or a Problem that says everything that is wrong with it."""
    _check_json(body)
    _check_characters(body)
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        value: T = decoder.decode(body)
    except msgspec.DecodeError:
        faults: list[Fault] = []
        _walk(json.loads(body), inspect.type_info(kind), "", faults)
        if not faults:
            raise
        raise invalid(faults[:MOST_FAULTS]) from None
    return value


def _check_json(body: bytes) -> None:
    """RFC 8259 and no more: no duplicate names, no NaN, no depth or number that breaks the next reader."""
    if not body.strip():
        raise _malformed("the body is empty; send a JSON document")
    _check_depth(body)
    try:
        # Decoded here, strictly: left to itself, Python would also read UTF-16, a byte order mark and half characters.
        text = body.decode()
        json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise _malformed(f"the body is not UTF-8: byte {error.start} is wrong") from None
    except RecursionError:
        raise _too_complex(f"nested deeper than {DEEPEST} levels") from None
    except _Unacceptable as error:
        raise _malformed(str(error)) from None
    except ValueError:  # Python refuses to read a whole number of over 4,300 digits
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
    """`1e400` is JSON, but no reader can hold it."""
    if math.isinf(float(text)):
        raise _Unacceptable(f"{text[:40]} is too large a number")


def _check_depth(body: bytes) -> None:
    """Takes the innermost brackets away, level by level: a batch is empty after four rounds, at the speed of C.

    What is left after 64 may be brackets inside strings, so only then are they counted one by one.
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
                raise _too_complex(f"nested deeper than {DEEPEST} levels")
        elif token in (b"]", b"}"):
            depth -= 1


def _check_characters(body: bytes) -> None:
    """NUL can't be stored, and half a character can't be encoded: both would surface as trouble much later."""
    if b"\\u0000" in body or _SURROGATE.search(body):
        faults: list[Fault] = []
        _walk_text(json.loads(body), "", faults)
        if faults:
            raise invalid(faults[:MOST_FAULTS])


def _walk_text(value: object, pointer: str, faults: list[Fault]) -> None:
    if isinstance(value, str):
        if "\0" in value:
            faults.append(Fault(pointer, "invalid-character", "a string contains NUL (\\u0000)"))
        elif any(0xD800 <= ord(character) <= 0xDFFF for character in value):
            faults.append(Fault(pointer, "invalid-character", "a string contains half a surrogate pair"))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk_text(item, f"{pointer}/{index}", faults)
    elif isinstance(value, dict):
        for name, item in value.items():
            _walk_text(name, f"{pointer}/{_escaped(name)}", faults)
            _walk_text(item, f"{pointer}/{_escaped(name)}", faults)


# ---- the slow walk: every fault of structure ---------------------------------------------------------------------


def _walk(value: object, kind: inspect.Type, pointer: str, faults: list[Fault]) -> None:
    match kind:
        case inspect.StructType():
            _walk_struct(value, kind, pointer, faults)
        case inspect.UnionType():
            if not any(_accepts(value, option) for option in kind.types):
                faults.append(_wrong_type(value, kind, pointer))
            elif isinstance(value, list | dict):
                for option in kind.types:
                    if _accepts(value, option):
                        _walk(value, option, pointer, faults)
                        return
        case inspect.ListType():
            if not isinstance(value, list):
                faults.append(_wrong_type(value, kind, pointer))
                return
            for index, item in enumerate(value):
                _walk(item, kind.item_type, f"{pointer}/{index}", faults)
        case inspect.DictType():
            if not isinstance(value, dict):
                faults.append(_wrong_type(value, kind, pointer))
                return
            for name, item in value.items():
                _walk(item, kind.value_type, f"{pointer}/{_escaped(name)}", faults)
        case _:
            if not _accepts(value, kind):
                faults.append(_wrong_type(value, kind, pointer))


def _walk_struct(value: object, kind: inspect.StructType, pointer: str, faults: list[Fault]) -> None:
    if not isinstance(value, dict):
        faults.append(_wrong_type(value, kind, pointer))
        return
    known = {field.encode_name: field for field in kind.fields}
    for name, item in value.items():
        if name in known:
            _walk(item, known[name].type, f"{pointer}/{name}", faults)
        else:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            faults.append(
                Fault(f"{pointer}/{_escaped(name)}", "unknown-field", f"there is no field {name[:80]!r}{hint}")
            )
    for name, field in known.items():
        if field.required and name not in value:
            faults.append(Fault(f"{pointer}/{name}", "missing-field", f"the field {name!r} is missing"))


def _accepts(value: object, kind: inspect.Type) -> bool:
    match kind:
        case inspect.NoneType():
            return value is None
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.ListType():
            return isinstance(value, list)
        case inspect.DictType() | inspect.StructType():
            return isinstance(value, dict)
        case inspect.UnionType():
            return any(_accepts(value, option) for option in kind.types)
        case _:
            return True


_WORDS: dict[type[inspect.Type], str] = {
    inspect.NoneType: "null", inspect.BoolType: "true or false", inspect.IntType: "a whole number (64 bits)",
    inspect.FloatType: "a number", inspect.StrType: "a string", inspect.ListType: "a list",
    inspect.DictType: "an object", inspect.StructType: "an object",
}  # fmt: skip


def _wrong_type(value: object, kind: inspect.Type, pointer: str) -> Fault:
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    wanted = " or ".join(_WORDS.get(type(option), "another type") for option in options)
    shown = json.dumps(value, ensure_ascii=True)
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    return Fault(pointer, "invalid-type", f"{shown} is not {wanted}")


def _escaped(name: str) -> str:
    """A name as part of a pointer; half a character, which no answer could carry, becomes a question mark."""
    return name[:80].replace("~", "~0").replace("/", "~1").encode(errors="replace").decode()


def _malformed(detail: str) -> Problem:
    return Problem("malformed-json", status=400, title="The body is not valid JSON", detail=detail)


def _too_complex(detail: str) -> Problem:
    return Problem("json-too-complex", status=400, title="The body is too complex", detail=detail)
