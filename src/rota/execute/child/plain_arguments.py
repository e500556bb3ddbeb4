"""Checks the arguments of a call before the function is called; the rules are in `model/function/typed_arguments.py`.

Most functions take a few values of types that JSON has. Those are checked here in less than a microsecond; only a call
that does not fit at first sight, or a function with other annotations, loads the rules, which is slow.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.model.function.typed_arguments import Rules

Given = tuple[list[object], dict[str, object]]
Check = Callable[[list[object], dict[str, object]], Given]
BAD = TypeError  # `BadArguments` is one; the rules raise no other

_VARIADIC = 0x04 | 0x08  # flags of code with *args or **kwargs
_NUMBER = frozenset({int, float, bool})
# By annotations, as types and as text: the exact types of values that fit. None: all.
_FITTING: dict[object, frozenset[type] | None] = {
    int: frozenset({int, bool}),
    float: _NUMBER,
    str: frozenset({str}),
    bool: frozenset({bool}),
    list: frozenset({list}),
    dict: frozenset({dict}),
    None: frozenset({type(None)}),
    object: None,
}
_FITTING |= {getattr(kind, "__name__", "None"): fitting for kind, fitting in _FITTING.items()}


def check_of(function: Callable[..., object]) -> Check:
    """Returns the arguments to call it with, or raises `BAD` with every fault."""
    kinds = _kinds_of(function)
    return _Rules(function) if kinds is None else _Plain(function, *kinds)


class _Rules:
    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._rules: Rules | None = None
        self._is_read = False

    def __call__(self, arguments: list[object], named: dict[str, object]) -> Given:
        if not self._is_read:
            self._rules = importlib.import_module("rota.model.function.typed_arguments").rules_of(self._function)
            self._is_read = True
        return (arguments, named) if self._rules is None else self._rules(arguments, named)


class _Plain(_Rules):
    def __init__(self, function: Callable[..., object], kinds: list[frozenset[type] | None], required: int) -> None:
        super().__init__(function)
        self._kinds = kinds
        self._required = required

    def __call__(self, arguments: list[object], named: dict[str, object]) -> Given:
        if not named and self._required <= len(arguments) <= len(self._kinds):
            for value, fitting in zip(arguments, self._kinds, strict=False):
                if fitting is not None and type(value) not in fitting:
                    break
            else:
                return arguments, named
        return super().__call__(arguments, named)


def _kinds_of(function: Callable[..., object]) -> tuple[list[frozenset[type] | None], int] | None:
    """Which values fit each parameter, and how many are required; None if the rules must say."""
    if type(function) is not FunctionType or hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        return None
    code, annotations = function.__code__, function.__annotations__
    if code.co_flags & _VARIADIC or code.co_kwonlyargcount:
        return None
    kinds: list[frozenset[type] | None] = []
    for name in code.co_varnames[: code.co_argcount]:
        annotation = annotations.get(name, object)
        try:
            kinds.append(_FITTING[annotation])
        except (KeyError, TypeError):  # another annotation, or one that is no key
            return None
    return kinds, code.co_argcount - len(function.__defaults__ or ())
