"""Converts option texts without Pydantic, whose import by Typer costs 0.1 s at each start.

`lighten` replaces Typer's coercion for the plain types that commands here use (text, flags, whole numbers,
paths, choices, and lists of them) and leaves all others to Typer. It uses Typer's internals: in a version where these
differ, nothing is replaced and the CLI is only slower.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
import typer.core


def lighten() -> None:
    """Replace Typer's coercion in this process."""
    original = getattr(typer.core, "build_runtime_param", None)
    if original is None or isinstance(original, _Builder):
        return
    typer.core.build_runtime_param = _Builder(original)  # type: ignore[attr-defined]


class _Builder:
    def __init__(self, original: Callable[[Any], Any]) -> None:
        self._original = original

    def __call__(self, descriptor: Any) -> Any:
        annotation = descriptor.annotation
        item = get_args(annotation)[0] if get_origin(annotation) is list else annotation
        plain = isinstance(item, type) and (item in (str, int, bool, Path) or issubclass(item, enum.StrEnum))
        if not plain or descriptor.parameter_info.parser is not None or _checks_files(descriptor.parameter_info):
            return self._original(descriptor)
        return _LightCoercion(item, descriptor.parameter_info)


def _checks_files(info: Any) -> bool:
    return bool(info.exists or info.writable or info.resolve_path or not info.file_okay or not info.dir_okay)


class _LightCoercion:
    """Has the one method that Typer calls: `coerce`."""

    def __init__(self, item: type, limits: Any) -> None:
        self._item = item
        self._limits = limits

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        try:
            return [self._one(word) for word in value] if several else self._one(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from None

    def _one(self, word: Any) -> Any:
        if self._item is str or not isinstance(word, str):
            return word  # a default, or a flag that was found
        if self._item is bool:
            return word.lower() in ("1", "true", "yes", "on")
        if self._item is int:
            return self._whole_number(word)
        if self._item is Path:
            return Path(word)
        choices = [one.value for one in self._item]  # type: ignore[attr-defined]
        if word not in choices:
            raise ValueError(f"{word!r} is not one of {', '.join(choices)}")
        return self._item(word)

    def _whole_number(self, word: str) -> int:
        least, most = self._limits.min, self._limits.max
        try:
            number = int(word)
        except ValueError:
            raise ValueError(f"{word!r} is not a whole number; write one such as 10") from None
        if least is not None and number < least:
            raise ValueError(f"{number} is too small; it is {least:g} or more")
        if most is not None and number > most:
            raise ValueError(f"{number} is too large; it is {most:g} or less")
        return number
