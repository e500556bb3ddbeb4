"""How far a running task says it is: a fraction and a few words, made harmless wherever they come from.

A line of a script's progress file is `0.4 epoch 4/10`, `40% epoch 4/10`, `4/10 epochs`, or a JSON object with
`fraction` and `message`. What is none of these says nothing. Cheap to import: warm children do.
"""

from __future__ import annotations

import math
import re

import msgspec

MOST_CHARACTERS = 200
# As on a terminal: controls, line separators, marks that reverse text, and halves of characters.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_HEAD = re.compile(r"(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(%|/\d{1,12})?(?:\s+(.*))?$", re.DOTALL)


class Progress(msgspec.Struct, frozen=True, array_like=True):
    fraction: float | None  # from 0 to 1; None when only words were said
    message: str = ""


class ReportedProgress(msgspec.Struct, frozen=True, array_like=True):
    """How far an attempt says it is."""

    task: int
    attempt: int
    progress: Progress


class _Line(msgspec.Struct, frozen=True):
    fraction: float | None = None
    message: str = ""


def cleaned(said: Progress) -> Progress:
    """Within bounds and printable, whatever was said."""
    fraction = said.fraction
    if fraction is not None:
        fraction = min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else None
    return Progress(fraction, _UNSAFE.sub("\ufffd", said.message[:MOST_CHARACTERS]).strip())


def progress_of(line: bytes) -> Progress | None:
    """What one line says; None when nothing that can be understood."""
    text = line.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        try:
            said = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        found = Progress(said.fraction, said.message)
    else:
        head = _HEAD.match(text)
        if head is None:
            return None
        number, unit, words = head.groups()
        whole = 100.0 if unit == "%" else float(unit[1:]) if unit else 1.0
        if whole <= 0:
            return None
        found = Progress(float(number) / whole, words or "")
    if found.fraction is not None and not 0 <= found.fraction <= 1:
        return None
    found = cleaned(found)
    return found if found.fraction is not None or found.message else None
