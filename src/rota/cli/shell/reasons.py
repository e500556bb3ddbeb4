"""An error in words, also one that brings no message of its own."""

from __future__ import annotations

import subprocess

_MEANINGS: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "there was no answer in time"),
    (subprocess.TimeoutExpired, "a program did not end in time"),
    (ConnectionRefusedError, "nothing listens at the address"),
    (ConnectionError, "the connection ended"),
    (EOFError, "the other side ended early"),
    (FileNotFoundError, "there is no such file"),
    (PermissionError, "this user may not do it"),
    (MemoryError, "there is no memory left"),
    (AssertionError, "an assumption of the code does not hold"),
    (NotImplementedError, "this is not possible here"),
    (RecursionError, "the data is nested too deeply"),
)


def reason_of(error: BaseException, meaning: str = "") -> str:
    """What the error says and its type; without a message `meaning`, or what its type means, or what caused it."""
    name = type(error).__name__
    text = " ".join(str(error).split()) or meaning
    if text:
        return text if name in text else f"{text} ({name})"
    known = next((words for kind, words in _MEANINGS if isinstance(error, kind)), None)
    if known is not None:
        return f"{known} ({name})"
    cause = error.__cause__ or error.__context__
    return f"{name} without a message" if cause is None else f"{name}, because {reason_of(cause)}"
