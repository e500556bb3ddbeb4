"""The arguments of a `@task` function before they are sent: judged by the node's own rules, and as JSON has them.

Of a `dict[int, date]` JSON has the keys only as text; the annotation converts them back.

Imported at the first call that is submitted: it is slow to import, and a node never needs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rota.client.arguments import encoded
from rota.model.function.annotations import hints_of, restores_keys
from rota.model.function.typed_arguments import UNKNOWN, BadArguments, rules_of

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

_PLAIN = frozenset((type(None), bool, int, str))


class CheckedArguments:
    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._name = f"{function.__module__}:{getattr(function, '__qualname__', function)}"
        self._rules = rules_of(function, self._name)
        hints = hints_of(function)
        self._keyed = frozenset(name for name, hint in hints.items() if name != "return" and restores_keys(hint))

    def sendable(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments as they are sent; a TypeError names every one that the function would not take."""
        sent, faults = self._judged(args, kwargs)
        if faults:
            raise BadArguments(faults)
        return sent

    def many_sendable(self, calls: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The same for calls by position; the faults of all of them, each with the number of its item."""
        sent, faults = [], []
        for number, call in enumerate(calls, start=1):
            (args, _), wrong = self._judged(call, {})
            sent.append(args)
            faults += [f"item {number}: {fault}" for fault in wrong]
        if faults:
            raise BadArguments(faults)
        return sent

    def _judged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Arguments, list[str]]:
        args, kwargs = self._with_text_keys(args, kwargs)
        faults: list[str] = []
        given = [self._as_node_gets(value, f"argument {n} of {self._name}", faults) for n, value in enumerate(args, 1)]
        named = {
            name: self._as_node_gets(value, f"argument {name!r} of {self._name}", faults)
            for name, value in kwargs.items()
        }
        if self._rules is not None:
            try:
                self._rules(given, named)
            except BadArguments as error:
                faults += error.faults
        return (args, kwargs), faults

    def _as_node_gets(self, value: object, called: str, faults: list[str]) -> object:
        """The value after its way through JSON."""
        if type(value) in _PLAIN:
            return value
        try:
            return msgspec.json.decode(encoded(value, called))
        except TypeError as error:
            faults.append(str(error))
            return UNKNOWN

    def _with_text_keys(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The same arguments, with text for the keys that the node converts back."""
        if not self._keyed:
            return args, kwargs
        signature = inspect.signature(self._function)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return args, kwargs  # the rules say what is wrong
        for name in self._keyed & bound.arguments.keys():
            kind, given = signature.parameters[name].kind, bound.arguments[name]
            if kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(map(_plain, given))
            elif kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {each: _plain(value) for each, value in given.items()}
            else:
                bound.arguments[name] = _plain(given)
        return bound.args, bound.kwargs


def _plain(value: object) -> object:
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return value  # refused with its name when it is encoded
