"""A function's arguments as JSON. A value that JSON would change is refused: a TypeError names it and its position.

The encoder refuses values that it can't write, but silently turns NaN into null and other keys into text. Keys that are
not text are allowed where the function's annotation converts them back: see `keyed_arguments.py`.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec

_PLAIN = frozenset((type(None), bool, int, str, bytes))
# Written as text, which the annotation converts back on the node. As keys of a mapping they are refused.
_WRITTEN = (bytes, bytearray, datetime, date, time, timedelta, UUID, Decimal)


def encoded(value: object, called: str) -> bytes:
    """`called` names the argument in messages: the encoder's own message does not."""
    try:
        body = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(getattr(value, "id", None), int) and hasattr(value, "result"):
            raise TypeError(
                f"{called} is a task, not a value: pass its result(), or name it in `after` and read "
                "current().results in the function"
            ) from None
        raise TypeError(f"{called} is not JSON ({type(value).__name__}): {error}") from None
    if type(value) not in _PLAIN:
        _check(msgspec.to_builtins(value, builtin_types=_WRITTEN), called)
    return body


def _check(value: object, called: str) -> None:
    pending = [(value, "")]
    while pending:
        item, position = pending.pop()
        where = f"{called}: {position}" if position else called
        if isinstance(item, float) and not math.isfinite(item):
            raise TypeError(f"{where} is {item}, which JSON does not have")
        if isinstance(item, dict):
            for key, part in item.items():
                if not isinstance(key, str):
                    hint = "keys must be str, unless the function's annotation names their type"
                    raise TypeError(f"{where} has a key of type {type(key).__name__}; {hint}")
                pending.append((part, f"{position}[{key!r:.40}]"))
        elif isinstance(item, list | tuple | set | frozenset):
            pending += [(part, f"{position}[{index}]") for index, part in enumerate(item)]
