"""Options that several commands share: one function declares and checks them, commands take the value it returns.

A command that only passes options on to a process of another command takes their words instead, as they were typed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from typer.models import OptionInfo

Function = Callable[..., Any]


def takes(name: str, read: Function) -> Callable[[Function], Function]:
    """Put the options of `read` in the place of a command's parameter `name`, which gets the value `read` returns."""
    options = inspect.signature(read, eval_str=True).parameters

    def value_of(given: dict[str, Any]) -> Any:
        return read(**{option: given.pop(option) for option in options})

    return lambda command: with_options(command, name, options, value_of)


def takes_words(name: str, read: Function) -> Callable[[Function], Function]:
    """As `takes`, but the parameter gets the checked options as words of a command line, without those not given."""
    options = inspect.signature(read, eval_str=True).parameters

    def words_of(given: dict[str, Any]) -> tuple[str, ...]:
        values = {option: given.pop(option) for option in options}
        read(**values)
        return tuple(
            word
            for option, value in values.items()
            if value != options[option].default
            for word in _words(option_name(options[option]), value)
        )

    return lambda command: with_options(command, name, options, words_of)


def option_name(parameter: inspect.Parameter) -> str:
    """`--name`, as the option is typed."""
    (declared,) = (one for one in parameter.annotation.__metadata__ if isinstance(one, OptionInfo))
    names = (declared.default, *(declared.param_decls or ()))
    named = (one for one in names if isinstance(one, str) and one.startswith("--"))
    return next(named, f"--{parameter.name.replace('_', '-')}")


def _words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, list):
        return [word for one in value for word in (option, str(one))]
    return [option, str(value)]


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
