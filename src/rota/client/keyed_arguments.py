"""Arguments such as `dict[int, date]`, whose keys JSON has only as text: the function's annotation converts them back.

Imported only when an annotated function is submitted with more than plain values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from rota.model.annotations import hints_of, restores_keys

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def with_text_keys(function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The same arguments, with text for the keys that the node converts back."""
    keyed = _keyed(function)
    if not keyed:
        return args, kwargs
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return args, kwargs  # the call is wrong and fails on the node
    for name in keyed & bound.arguments.keys():
        kind, given = signature.parameters[name].kind, bound.arguments[name]
        if kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(map(_plain, given))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {each: _plain(value) for each, value in given.items()}
        else:
            bound.arguments[name] = _plain(given)
    return bound.args, bound.kwargs


@functools.cache
def _keyed(function: Callable[..., object]) -> frozenset[str]:
    hints = hints_of(function)
    return frozenset(name for name, hint in hints.items() if name != "return" and restores_keys(hint))


def _plain(value: object) -> object:
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return value  # refused with its name when it is encoded
