"""A function's arguments as JSON. What would arrive as something else is not sent: a TypeError names it and its place.

The encoder refuses what it can't write, but makes null of NaN and text of other keys without a word. Keys are let
through where the function's annotation turns them back into what they were: see `keyed_arguments.py`.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec

_PLAIN = frozenset((type(None), bool, int, str, bytes))
# Written as text and known by the annotation on the other side; as keys they are other keys like numbers.
_WRITTEN = (bytes, bytearray, datetime, date, time, timedelta, UUID, Decimal)


def encoded(value: object, what: str) -> bytes:
    """`what` names it: one argument at a time, because the encoder's own message does not say which was at fault."""
    try:
        body = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TypeError(f"{what} is not JSON ({type(value).__name__}): {error}") from None
    if type(value) not in _PLAIN:
        _check(msgspec.to_builtins(value, builtin_types=_WRITTEN), what)
    return body


def _check(value: object, what: str) -> None:
    waiting = [(value, "")]
    while waiting:
        item, place = waiting.pop()
        where = f"{what}: {place}" if place else what
        if isinstance(item, float) and not math.isfinite(item):
            raise TypeError(f"{where} is {item}, which JSON does not have")
        if isinstance(item, dict):
            for key, part in item.items():
                if not isinstance(key, str):
                    hint = "keys must be str, unless the function's annotation says what they are"
                    raise TypeError(f"{where} has a key of type {type(key).__name__}; {hint}")
                waiting.append((part, f"{place}[{key!r:.40}]"))
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += [(part, f"{place}[{index}]") for index, part in enumerate(item)]
