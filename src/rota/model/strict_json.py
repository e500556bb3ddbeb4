"""Encodes a function's return value or checkpoint as JSON, or raises the reason why that is impossible.

Accepted are the types that msgspec converts in both directions: those of JSON, dates, times, durations, UUIDs,
decimals, bytes, tuples, sets, enums, dataclasses and msgspec's structs; and every mapping and its views, such
as `ctx.results`, as a dictionary or list. Other types are refused with their path in the value; so are NaN and the
infinities, which would become null.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping, MappingView

import msgspec

_PLAIN = frozenset((type(None), bool, int, str, bytes, bytearray))
# By name, because this module must not import theirs.
_WHOLE = frozenset(
    ("datetime.date", "datetime.datetime", "datetime.time", "datetime.timedelta", "uuid.UUID", "decimal.Decimal")
)


class NotJson(ValueError):
    """The value has no faithful JSON form; the text names the type and its path."""


def encode(value: object, what: str = "the result") -> bytes:
    has_counterparts = type(value) not in _PLAIN and _check(value, what)
    try:
        if has_counterparts:
            value = _without_structs(value)
        return _encode(value)
    except OverflowError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_counterpart).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"{what} is not JSON: {error}") from None


def _counterpart(value: object) -> object:
    """What stands for a value in JSON. An object may say it itself, with a method `__rota_json__`."""
    own = getattr(type(value), "__rota_json__", None)
    if own is not None:
        return own(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, MappingView):
        return [*value]  # type: ignore[misc]  # keys, values and items can all be walked
    raise TypeError(f"{_name(value)} is not JSON")


_encode = msgspec.json.Encoder(enc_hook=_counterpart).encode


def _without_structs(value: object) -> object:
    """The value with their counterparts for structs that say themselves what they are in JSON."""
    if hasattr(type(value), "__rota_json__"):
        return _without_structs(_counterpart(value))
    if isinstance(value, Mapping):
        return {key: _without_structs(part) for key, part in value.items()}
    if isinstance(value, list | tuple | MappingView):
        return [_without_structs(part) for part in value]  # type: ignore[union-attr]
    return value


def _check(value: object, what: str) -> bool:
    """Whether it contains a struct with a counterpart, which the encoder would not ask for.

    Walks without recursion. A structure that contains itself is found by its depth.
    """
    has_counterparts = False
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
            elif isinstance(item, Mapping | MappingView) or hasattr(kind, "__rota_json__"):
                has_counterparts |= isinstance(item, msgspec.Struct)
                try:
                    deeper.append((_counterpart(item), place))
                except Exception as error:  # noqa: BLE001 - reading it may run the function's own code
                    said = error.args[0] if isinstance(error, KeyError) and error.args else error
                    raise NotJson(f"{what}{place} can't be read: {said}") from None
            elif hasattr(kind, "__dataclass_fields__") or isinstance(item, msgspec.Struct):
                names: tuple[str, ...] = getattr(item, "__struct_fields__", ())
                names = names or tuple(getattr(item, "__dataclass_fields__", ()))
                deeper += [(getattr(item, name), f"{place}.{name}") for name in names if hasattr(item, name)]
            elif _name(item) in _WHOLE or isinstance(item, enum.Enum):
                continue
            else:
                raise NotJson(f"{what}{place} is of type {_name(item)}, which is not JSON")
        if not deeper:
            return has_counterparts
        level = deeper
    raise NotJson(f"{what} is nested too deeply, or contains itself")


def _name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
