"""A function's return value as JSON, or the reason why it isn't JSON. Nothing is converted silently.

msgspec would turn dates, sets and NaN into something; a caller who gets back other than what was returned
has been lied to, so anything but None, bool, int, float, str, list, tuple and dict with str keys is refused
by name.
"""

from __future__ import annotations

import json
import math

import msgspec

_encode = msgspec.json.Encoder().encode
_PLAIN = frozenset((type(None), bool, int, str))


class NotJson(ValueError):
    """The value has no faithful JSON form; the text names the type and where it is."""


def encode(value: object) -> bytes:
    if type(value) not in _PLAIN:
        _check(value)
    try:
        return _encode(value)
    except OverflowError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"the result is not JSON: {error}") from None


def _check(value: object) -> None:
    """Walks without recursion; a structure that contains itself is found by its depth."""
    level = [(value, "")]
    for _ in range(1000):
        deeper: list[tuple[object, str]] = []
        for item, place in level:
            kind = type(item)
            if kind in _PLAIN:
                continue
            if isinstance(item, float) and kind is float:
                if not math.isfinite(item):
                    raise NotJson(f"the result{place} is {item}, which JSON does not have")
            elif isinstance(item, list | tuple) and kind in (list, tuple):
                deeper += [(part, f"{place}[{index}]") for index, part in enumerate(item)]
            elif isinstance(item, dict):
                for key, part in item.items():
                    if type(key) is not str:
                        raise NotJson(f"the result{place} has a key of type {_name(key)}; keys must be str")
                    deeper.append((part, f"{place}[{key!r:.40}]"))
            else:
                raise NotJson(f"the result{place} is of type {_name(item)}, which is not JSON")
        if not deeper:
            return
        level = deeper
    raise NotJson("the result is nested too deeply, or contains itself")


def _name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
