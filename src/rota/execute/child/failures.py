"""An exception of a function as a failure: its type, message and own part of the traceback, without secrets.

The exception is the function's own code and may fail while it is being described.
"""

from __future__ import annotations

import os
import traceback
from types import TracebackType

from rota.execute.messages import masking

MESSAGE_CHARACTERS = 2_000
_TRACEBACK_CHARACTERS = 16 * 1024

# Modules whose frames lie between ours and the function's.
_BETWEEN = ("importlib", "asyncio.base_events", "asyncio.runners", "concurrent.futures._base")

Failure = tuple[str, str, str]


def failure_of(error: BaseException, patterns: tuple[bytes, ...] = ()) -> Failure:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
        if isinstance(error, SystemExit):
            message = f"the function called sys.exit({error.code!r})"
        error.__traceback__ = _without_our_frames(error.__traceback__)
        text = "".join(traceback.format_exception(error))
    except BaseException as second:  # noqa: BLE001 - __str__ is the function's code too
        message, text = f"(its message could not be made: {type(second).__name__})", ""
    # Before anything is cut: half a secret would not be recognised.
    name, message, text = (masking.mask_text(part, patterns) for part in (name, message, text))
    if len(text) > _TRACEBACK_CHARACTERS:
        text = text[: _TRACEBACK_CHARACTERS // 2] + "\n…\n" + text[-_TRACEBACK_CHARACTERS // 2 :]
    return name, printable(message[:MESSAGE_CHARACTERS]), printable(text)


def _without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    ours = os.path.dirname(os.path.dirname(__file__))  # execute/
    while trace is not None and (
        trace.tb_frame.f_code.co_filename.startswith(ours)
        or trace.tb_frame.f_code.co_filename.startswith("<frozen importlib")
        or trace.tb_frame.f_globals.get("__name__") in _BETWEEN
    ):
        trace = trace.tb_next
    return trace


def printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
