"""Encodes a function's return value or checkpoint as JSON, or raises the reason why that is impossible.

Accepted are the types that msgspec converts in both directions: those of JSON, dates, times, durations, UUIDs,
decimals, bytes, tuples, sets, enums, dataclasses and msgspec's structs. Other types are refused with their path in the
value; so are NaN and the infinities, which would become null.
"""

from __future__ import annotations

import enum
import json
import math

import msgspec

_encode = msgspec.json.Encoder().encode
_PLAIN = frozenset((type(None), bool, int, str, bytes, bytearray))
# By name, because this module must not import theirs.
_WHOLE = frozenset(
    ("datetime.date", "datetime.datetime", "datetime.time", "datetime.timedelta", "uuid.UUID", "decimal.Decimal")
)


class NotJson(ValueError):
    """The value has no faithful JSON form; the text names the type and its path."""


def encode(value: object, what: str = "the result") -> bytes:
    if type(value) not in _PLAIN:
        _check(value, what)
    try:
        return _encode(value)
    except OverflowError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"{what} is not JSON: {error}") from None


def _check(value: object, what: str) -> None:
    """Walks without recursion. A structure that contains itself is found by its depth."""
    level = [(value, "")]
    for _ in range(1000):
        deeper: list[tuple[object, str]] = []
        for item, place in level:
            kind = type(item)
            if kind in _PLAIN:
                continue
            if isinstance(item, float) and kind is float:
                if not math.isfinite(item):
                    raise NotJson(f"{what}{place} is {item}, which JSON does not have")
            elif isinstance(item, list | tuple | set | frozenset):
                deeper += [(part, f"{place}[{index}]") for index, part in enumerate(item)]
            elif isinstance(item, dict):
                for key, part in item.items():
                    if type(key) is not str:
                        raise NotJson(f"{what}{place} has a key of type {_name(key)}; keys must be str")
                    deeper.append((part, f"{place}[{key!r:.40}]"))
            elif hasattr(kind, "__dataclass_fields__") or isinstance(item, msgspec.Struct):
                names: tuple[str, ...] = getattr(item, "__struct_fields__", ())
                names = names or tuple(getattr(item, "__dataclass_fields__", ()))
                deeper += [(getattr(item, name), f"{place}.{name}") for name in names if hasattr(item, name)]
            elif _name(item) in _WHOLE or isinstance(item, enum.Enum):
                continue
            else:
                raise NotJson(f"{what}{place} is of type {_name(item)}, which is not JSON")
        if not deeper:
            return
        level = deeper
    raise NotJson(f"{what} is nested too deeply, or contains itself")


def _name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
