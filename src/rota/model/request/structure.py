"""Compares a JSON value with a structure and reports every fault; `msgspec` stops at the first. Pure.

The structure is `msgspec`'s own type information, so there is one description of a request. Used for HTTP bodies and
manifests.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from rota.model.errors import Fault

_info = functools.cache(inspect.type_info)


def structure_faults(value: object, kind: type) -> list[Fault]:
    """Unknown fields, missing fields and values of a wrong type."""
    faults: list[Fault] = []
    _walk(value, _info(kind), "", faults)
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
            faults.append(Fault(pointer, "invalid-character", "a string contains half a surrogate pair"))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk_text(item, f"{pointer}/{index}", faults)
    elif isinstance(value, dict):
        for name, item in value.items():
            _walk_text(name, f"{pointer}/{pointer_part(name)}", faults)
            _walk_text(item, f"{pointer}/{pointer_part(name)}", faults)


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
                _walk(item, kind.value_type, f"{pointer}/{pointer_part(name)}", faults)
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
                Fault(f"{pointer}/{pointer_part(name)}", "unknown-field", f"there is no field {name[:80]!r}{hint}")
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
    inspect.NoneType: "null",
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number (64 bits)",
    inspect.FloatType: "a number",
    inspect.StrType: "a string",
    inspect.ListType: "a list",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
}


def _wrong_type(value: object, kind: inspect.Type, pointer: str) -> Fault:
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    wanted = " or ".join(_WORDS.get(type(option), "another type") for option in options)
    shown = json.dumps(value, ensure_ascii=True)
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    return Fault(pointer, "invalid-type", f"{shown} is not {wanted}")


def pointer_part(name: str) -> str:
    """A name as part of a JSON pointer. A lone surrogate, which no answer could carry, becomes a question mark."""
    return name[:80].replace("~", "~0").replace("/", "~1").encode(errors="replace").decode()
