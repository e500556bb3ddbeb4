"""Options that several commands share: one function declares and checks them, commands take the value it returns."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

Function = Callable[..., Any]


def takes(name: str, read: Function) -> Callable[[Function], Function]:
    """Put the options of `read` in the place of a command's parameter `name`, which gets the value `read` returns."""
    options = inspect.signature(read, eval_str=True).parameters

    def value_of(given: dict[str, Any]) -> Any:
        return read(**{option: given.pop(option) for option in options})

    return lambda command: with_options(command, name, options, value_of)


def with_options(
    command: Function, name: str, options: Mapping[str, inspect.Parameter], read: Callable[[dict[str, Any]], Any]
) -> Function:
    """The command with `options` in the place of its parameter `name`. `read` takes their values out of the dict."""

    @functools.wraps(command)
    def taking(**given: Any) -> Any:
        return command(**{name: read(given)}, **given)

    own = inspect.signature(command, eval_str=True).parameters.values()
    merged = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for one in own
        for parameter in (options.values() if one.name == name else (one,))
    ]
    # Typer reads both.
    taking.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
    taking.__annotations__ = {parameter.name: parameter.annotation for parameter in merged}
    return taking
