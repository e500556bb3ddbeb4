"""The rest of a request whose structure has faults, so that its other faults are found in the same go. Pure.

An unknown field is read as the field that it resembles, a value of a wrong type is replaced by a stand-in or left out.
The result is only judged, never stored. What is judged about the changed places is not reported.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from rota.model.errors import Fault
from rota.model.request.structure import accepts, info_of, pointer_part, structure_faults

S = TypeVar("S", bound=msgspec.Struct)
Kept = TypeVar("Kept", bound=msgspec.Struct, covariant=True)

_DROPPED = object()
_TASK: dict[str, Any] = {"command": ["true"]}
# A right value of each field whose absence would be a fault of another one.
_STAND_INS: dict[str, Any] = {
    "command": ["true"],
    "script": ":",
    "path": "/stand-in",
    "function": "stand:in",
    "task": _TASK,
    "tasks": [{**_TASK, "name": "stand-in"}],
    "at": "8999-01-01T00:00Z",
    "hourly": 0,
    "daily": "00:00",
    "weekly": "mon@00:00",
    "monthly": "1@00:00",
    "annually": "01-01@00:00",
    "cron": "0 0 * * *",
    "every": "1d",
}
_INSTEAD = {"upload": "script"}  # a stand-in would need an artifact that exists
_NAMES = ("name", "ref")  # their stand-ins differ: two tasks of a graph may not have the same
# Fields that are right only together with another one: they go with it.
_NEEDED_BY = {
    "attempts": ("retry_on",),
    "tolerance": ("on_late",),
    "concurrency_key": ("concurrency_limit", "concurrency_scope"),
    "upload": ("args", "interpreter"),
}


@dataclass(frozen=True, slots=True)
class Rest(Generic[Kept]):
    """A request without its faults of structure. `value` None: too little is left of it."""

    value: Kept | None
    structure: list[Fault]
    changed: list[str]  # pointers

    def with_others(self, others: Iterable[Fault]) -> list[Fault]:
        """The faults of the structure, and those `others` of the value that do not come from what was changed."""
        hidden = {*self.changed, *(fault.pointer for fault in self.structure)}
        found = list(self.structure)
        for fault in others:
            parts = fault.pointer.split("/")
            if not any("/".join(parts[:end]) in hidden for end in range(1, len(parts) + 1)):
                found.append(fault)
        return found


def rest_of(value: object, kind: type[S]) -> Rest[S]:
    """What is left of a value, which has no faults of structure if it is whole."""
    reader = _Reader()
    structure = structure_faults(value, kind)
    kept = reader.kept(value, info_of(kind), "")
    left: S | None = None
    if kept is not _DROPPED:
        try:
            left = msgspec.json.decode(json.dumps(kept), type=kind)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            left = None  # a number or a text in it can't be encoded
    return Rest(left, structure, reader.changed)


class _Reader:
    def __init__(self) -> None:
        self.changed: list[str] = []

    def kept(self, value: Any, kind: inspect.Type, pointer: str) -> Any:
        """The value as far as it is right; `_DROPPED` if it is not of its kind at all."""
        if not accepts(value, kind):
            return _DROPPED
        if isinstance(kind, inspect.UnionType):
            option = next(option for option in kind.types if accepts(value, option))
            return self.kept(value, option, pointer)
        if isinstance(value, list) and isinstance(kind, inspect.ListType):
            return self._list(value, kind.item_type, pointer)
        if isinstance(value, dict) and isinstance(kind, inspect.DictType):
            found = {name: self.kept(item, kind.value_type, f"{pointer}/{name}") for name, item in value.items()}
            return _DROPPED if any(item is _DROPPED for item in found.values()) else found
        if isinstance(value, dict) and isinstance(kind, inspect.StructType):
            return self._struct(value, kind, pointer)
        return value

    def _list(self, value: list[Any], kind: inspect.Type, pointer: str) -> Any:
        found = [self.kept(item, kind, f"{pointer}/{index}") for index, item in enumerate(value)]
        if isinstance(kind, inspect.StructType):  # the others keep their numbers
            found = [
                {**_TASK, "name": f"stand-in-{index}"} if item is _DROPPED else item for index, item in enumerate(found)
            ]
        return _DROPPED if any(item is _DROPPED for item in found) else found

    def _struct(self, value: dict[str, Any], kind: inspect.StructType, pointer: str) -> dict[str, Any]:
        known = {field.encode_name: field for field in kind.fields}
        found: dict[str, Any] = {}
        for written, item in value.items():
            name = _meant(written, known, value)
            if name is None:
                continue
            if name != written:
                self.changed.append(f"{pointer}/{name}")
            kept = self.kept(item, known[name].type, f"{pointer}/{pointer_part(written)}")
            found[name] = kept
        wrong = [name for name, item in found.items() if item is _DROPPED]
        wrong += [name for name, field in known.items() if field.required and name not in found]
        for name in wrong:
            found.pop(name, None)
            for other in _NEEDED_BY.get(name, ()):
                found.pop(other, None)
            name = _INSTEAD.get(name, name)
            if name in known and name not in found and (name in _STAND_INS or name in _NAMES):
                found[name] = _STAND_INS.get(name, f"stand-in{pointer.replace('/', '-')}")
                self.changed.append(f"{pointer}/{name}")
        return found


def _meant(written: str, known: Iterable[str], given: Iterable[str]) -> str | None:
    """The field that an unknown name resembles, as the fault suggests it; None: none, or that field is given too."""
    if written in set(known):
        return written
    near = difflib.get_close_matches(written, known, n=1)
    return near[0] if near and near[0] not in set(given) else None
