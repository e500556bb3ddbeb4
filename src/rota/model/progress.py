"""The progress of a running task: a fraction and a short message, cleaned because a task wrote them.

A line of a script's progress file is `0.4 epoch 4/10`, `40% epoch 4/10`, `4/10 epochs`, or a JSON object with
`fraction` and `message`. Other lines are ignored.
"""

from __future__ import annotations

import math
import re

import msgspec

MOST_CHARACTERS = 200
# Control characters, line separators, direction marks and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_HEAD = re.compile(r"(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(%|/\d{1,12})?(?:\s+(.*))?$", re.DOTALL)


class Progress(msgspec.Struct, frozen=True, array_like=True):
    fraction: float | None  # from 0 to 1; None: only a message
    message: str = ""


class ReportedProgress(msgspec.Struct, frozen=True, array_like=True):
    """The progress that an attempt reported."""

    task: int
    attempt: int
    progress: Progress


class _Line(msgspec.Struct, frozen=True):
    fraction: float | None = None
    message: str = ""


def cleaned(progress: Progress) -> Progress:
    """Bounded and printable."""
    fraction = progress.fraction
    if fraction is not None:
        fraction = min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else None
    return Progress(fraction, _UNSAFE.sub("\ufffd", progress.message[:MOST_CHARACTERS]).strip())


def progress_of(line: bytes) -> Progress | None:
    """The progress in a line; None: there is none."""
    text = line.decode("utf-8", "replace").strip()
    if text.startswith("{"):
        try:
            report = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        found = Progress(report.fraction, report.message)
    else:
        head = _HEAD.match(text)
        if head is None:
            return None
        number, unit, message = head.groups()
        whole = 100.0 if unit == "%" else float(unit[1:]) if unit else 1.0
        if whole <= 0:
            return None
        found = Progress(float(number) / whole, message or "")
    if found.fraction is not None and not 0 <= found.fraction <= 1:
        return None
    found = cleaned(found)
    return found if found.fraction is not None or found.message else None
