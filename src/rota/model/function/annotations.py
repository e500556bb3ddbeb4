"""Tells which annotated types need a conversion from JSON: dates, UUIDs, decimals, bytes, sets, tuples, enums, classes.

A node converts arguments before it calls a function, a client converts a result. A type that can't be resolved (a name
imported only for type checkers, a class that is no dataclass) is left as JSON gave it. This module is imported lazily:
`typing` and `msgspec.inspect` are slow to load.
"""

from __future__ import annotations

import typing
from collections.abc import Callable

import msgspec
from msgspec import inspect as shapes

_RICH = (
    shapes.DateTimeType,
    shapes.DateType,
    shapes.TimeType,
    shapes.TimeDeltaType,
    shapes.UUIDType,
    shapes.DecimalType,
    shapes.BytesType,
    shapes.ByteArrayType,
    shapes.MemoryViewType,
    shapes.EnumType,
    shapes.SetType,
    shapes.FrozenSetType,
    shapes.TupleType,
    shapes.VarTupleType,
    shapes.NamedTupleType,
    shapes.DataclassType,
    shapes.StructType,
)


def hints_of(function: Callable[..., object]) -> dict[str, object]:
    """A function's annotations as types; empty if one of them can't be resolved."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are evaluated here and may do anything
        return {}


def needs_conversion(annotation: object) -> bool:
    """Whether a JSON value must and can be converted to this type."""
    return any(isinstance(part, _RICH) or _has_other_keys(part) for part in _parts(annotation))


def can_be_judged(annotation: object) -> bool:
    """Whether it can be said of a JSON value that it fits this type, or does not."""
    return bool(_parts(annotation))


def _parts(annotation: object) -> list[shapes.Type]:
    """The type and all types in it; none if msgspec does not know one of them."""
    if annotation in (typing.Any, object):
        return []
    try:
        found = list(_inside(shapes.type_info(annotation)))
    except Exception:  # noqa: BLE001 - a type msgspec does not know, or one that can't be evaluated
        return []
    return [] if any(isinstance(part, shapes.CustomType) for part in found) else found


def restores_keys(annotation: object) -> bool:
    """Whether a value of this type has dictionary keys that JSON turned into text."""
    return needs_conversion(annotation) and any(_has_other_keys(part) for part in _inside(shapes.type_info(annotation)))


def converted(value: object, annotation: object) -> object:
    """Raises `msgspec.ValidationError` with what was expected, what was found, and where."""
    return msgspec.convert(value, annotation, str_keys=True)


def _has_other_keys(part: shapes.Type) -> bool:
    return isinstance(part, shapes.DictType) and not isinstance(part.key_type, shapes.StrType | shapes.AnyType)


def _inside(info: shapes.Type) -> typing.Iterator[shapes.Type]:
    """The type and all types in it, each class once."""
    waiting: list[object] = [info]
    seen: set[type] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
            continue
        if isinstance(part, shapes.Field):
            waiting.append(part.type)
            continue
        if not isinstance(part, shapes.Type):
            continue
        owner = getattr(part, "cls", None)
        if isinstance(owner, type):
            if owner in seen:
                continue
            seen.add(owner)
        yield part
        if not isinstance(part, shapes.EnumType):
            waiting += [getattr(part, name) for name in part.__struct_fields__]
