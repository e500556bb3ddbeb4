"""Compares a JSON value with a structure and reports every fault; `msgspec` stops at the first. Pure.

The structure is `msgspec`'s own type information, so there is one description of a request. Used for HTTP bodies and
manifests.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from rota.model.errors import Fault

info_of = functools.cache(inspect.type_info)


def structure_faults(value: object, kind: type) -> list[Fault]:
    """Unknown fields, missing fields and values of a wrong type."""
    faults: list[Fault] = []
    _walk(value, info_of(kind), "", faults)
    return faults


def derived(
    kind: type[msgspec.Struct],
    *,
    name: str | None = None,
    instead: Mapping[str, Any] | None = None,
    without: Collection[str] = (),
    more: Mapping[str, Any] | None = None,
) -> type[msgspec.Struct]:
    """A structure made from another: fields with other types, fields left out, and further optional fields."""
    types = instead or {}
    fields: list[Any] = []
    for one in msgspec.structs.fields(kind):
        if one.name in without:
            continue
        if one.name in types:
            fields.append((one.name, types[one.name], *(() if one.required else (msgspec.UNSET,))))
        elif one.default is not msgspec.NODEFAULT:
            fields.append((one.name, one.type, one.default))
        elif one.default_factory is not msgspec.NODEFAULT:
            fields.append((one.name, one.type, msgspec.field(default_factory=one.default_factory)))
        else:
            fields.append((one.name, one.type))
    fields += [(field, type_, msgspec.UNSET) for field, type_ in (more or {}).items()]
    return msgspec.defstruct(name or kind.__name__, fields, kw_only=True, forbid_unknown_fields=True)


def text_faults(value: object) -> list[Fault]:
    """Strings that can't be stored or sent: NUL, lone surrogates."""
    faults: list[Fault] = []
    _walk_text(value, "", faults)
    return faults


def _walk_text(value: object, pointer: str, faults: list[Fault]) -> None:
    if isinstance(value, str):
        if "\0" in value:
            faults.append(Fault(pointer, "invalid-character", "a string contains NUL (\\u0000)"))
        elif not value.isascii() and any(0xD800 <= ord(character) <= 0xDFFF for character in value):
            faults.append(
                Fault(
                    pointer, "invalid-character", "a string contains half of a surrogate pair, which is not a character"
                )
            )
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk_text(item, f"{pointer}/{index}", faults)
    elif isinstance(value, dict):
        for name, item in value.items():
            _walk_text(name, f"{pointer}/{pointer_part(name)}", faults)
            _walk_text(item, f"{pointer}/{pointer_part(name)}", faults)


def _walk(value: object, kind: inspect.Type, pointer: str, faults: list[Fault]) -> None:
    if not accepts(value, kind):
        faults.append(_wrong_type(value, kind, pointer))
    elif isinstance(value, list | dict) and isinstance(kind, inspect.UnionType):
        _walk(value, next(option for option in kind.types if accepts(value, option)), pointer, faults)
    elif isinstance(value, list) and isinstance(kind, inspect.ListType):
        for index, item in enumerate(value):
            _walk(item, kind.item_type, f"{pointer}/{index}", faults)
    elif isinstance(value, dict) and isinstance(kind, inspect.DictType):
        for name, item in value.items():
            _walk(item, kind.value_type, f"{pointer}/{pointer_part(name)}", faults)
    elif isinstance(value, dict) and isinstance(kind, inspect.StructType):
        _walk_struct(value, kind, pointer, faults)


def _walk_struct(value: dict[str, Any], kind: inspect.StructType, pointer: str, faults: list[Fault]) -> None:
    known = {field.encode_name: field for field in kind.fields}
    for name, item in value.items():
        if name in known:
            _walk(item, known[name].type, f"{pointer}/{name}", faults)
        else:
            faults.append(Fault(f"{pointer}/{pointer_part(name)}", "unknown-field", unknown_field(name, known)))
    for name, field in known.items():
        if field.required and name not in value:
            faults.append(Fault(f"{pointer}/{name}", "missing-field", f"the field {name!r} is missing"))


def unknown_field(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"there is no field {name[:80]!r}" + (f"; did you mean {near[0]!r}?" if near else "")


# Each kind of value: its name in messages, and whether a value is of it.
_KINDS: dict[type[inspect.Type], tuple[str, Callable[[Any], bool]]] = {
    inspect.NoneType: ("null", lambda value: value is None),
    inspect.BoolType: ("true or false", lambda value: isinstance(value, bool)),
    inspect.IntType: ("a whole number (64 bits)", lambda value: type(value) is int and -(2**63) <= value < 2**63),
    inspect.FloatType: ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    inspect.StrType: ("a string", lambda value: isinstance(value, str)),
    inspect.ListType: ("a list", lambda value: isinstance(value, list)),
    inspect.DictType: ("an object", lambda value: isinstance(value, dict)),
    inspect.StructType: ("an object", lambda value: isinstance(value, dict)),
}
_OTHER: tuple[str, Callable[[Any], bool]] = ("another type", lambda _: True)


def accepts(value: object, kind: inspect.Type) -> bool:
    """Whether the value itself is of the kind; its parts may not be."""
    if isinstance(kind, inspect.UnionType):
        return any(accepts(value, option) for option in kind.types)
    return _KINDS.get(type(kind), _OTHER)[1](value)


def _wrong_type(value: object, kind: inspect.Type, pointer: str) -> Fault:
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    wanted = " or ".join(_KINDS.get(type(option), _OTHER)[0] for option in options)
    shown = json.dumps(value, ensure_ascii=True)
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    return Fault(pointer, "invalid-type", f"{shown} is not {wanted}")


def pointer_part(name: str) -> str:
    """A name as part of a JSON pointer. A lone surrogate, which no answer could carry, becomes a question mark."""
    return name[:80].replace("~", "~0").replace("/", "~1").encode(errors="replace").decode()
