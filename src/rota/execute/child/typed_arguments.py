"""Converts a function's arguments from JSON to the types of its annotations.

A converter is made once per function; the module is loaded only for annotations that JSON does not have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import msgspec

from rota.model.annotations import converted, hints_of, needs_conversion

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Arguments = tuple[list[object], dict[str, object]]


class BadArgument(ValueError):
    """An argument does not fit the function's annotation; the message names it."""


class Converter:
    def __init__(self, hints: dict[str, object], signature: inspect.Signature) -> None:
        parameters = signature.parameters.values()
        self._hints = hints
        self._positions = [parameter.name for parameter in parameters if parameter.kind in _BY_POSITION]
        by_kind = {parameter.kind: parameter.name for parameter in parameters}
        self._rest = by_kind.get(inspect.Parameter.VAR_POSITIONAL)
        self._others = by_kind.get(inspect.Parameter.VAR_KEYWORD)
        self._known = set(signature.parameters)

    def __call__(self, arguments: list[object], named: dict[str, object]) -> Arguments:
        by_position = [
            self._one(self._positions[position] if position < len(self._positions) else self._rest, value)
            for position, value in enumerate(arguments)
        ]
        by_name = {name: self._one(name if name in self._known else self._others, named[name]) for name in named}
        return by_position, by_name

    def _one(self, name: str | None, value: object) -> object:
        if name is None or name not in self._hints:
            return value
        try:
            return converted(value, self._hints[name])
        except msgspec.ValidationError as error:
            raise BadArgument(f"argument {name}: {error}") from None


def converter_of(function: Callable[..., object]) -> Converter | None:
    """None when there is nothing to convert."""
    hints = {name: hint for name, hint in hints_of(function).items() if name != "return" and needs_conversion(hint)}
    if not hints:
        return None
    return Converter(hints, inspect.signature(function))
