"""References to artifacts, and the rules for file names and paths.

A reference is `sha256:9f86d081…`, the digits alone, or at least the first eight of them. The digest identifies an
artifact within a tenant; a name is only a label.
"""

from __future__ import annotations

import enum
import re

SHOWN_DIGITS = 12

_NAMED = re.compile(r"^(?:sha256:)?([0-9a-f]{8,64})\Z", re.ASCII)
_UNSAFE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\\\\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
LONGEST_NAME_BYTES = 255
LONGEST_PATH_BYTES = 1024
# Reserved at the top of a work folder; a star matches any ending.
RESERVED_NAMES = ("checkpoint", ".rota-*")


class Purpose(enum.StrEnum):
    """Why an attempt stores an object."""

    OUTPUT = "output"  # becomes an artifact of its tenant
    CHECKPOINT = "checkpoint"  # for the task's next attempt; removed when the task has ended
    LOG = "log"


def digits_of(text: str) -> str | None:
    """The 8 to 64 hexadecimal digits of a reference; None: it is no reference."""
    match = _NAMED.match(text.lower())
    return None if match is None else match[1]


def digest_of(text: str) -> bytes | None:
    """A whole digest; None for anything else."""
    digits = digits_of(text)
    return bytes.fromhex(digits) if digits is not None and len(digits) == 64 else None


def identity(digest: bytes) -> str:
    return f"sha256:{digest.hex()}"


def short_identity(sha256: str) -> str:
    """A short reference for people, accepted wherever an artifact is named."""
    return f"sha256:{sha256[:SHOWN_DIGITS]}"


def prefix_range(digits: str) -> tuple[bytes, bytes]:
    """The lowest and the highest digest that begin with these digits."""
    return bytes.fromhex(digits.ljust(64, "0")), bytes.fromhex(digits.ljust(64, "f"))


def name_fault(name: str) -> str | None:
    """What is wrong with a file name; None: nothing."""
    if not name or name in (".", "..") or "/" in name or _UNSAFE.search(name):
        return "a name is a plain file name: no slash, backslash, control or direction marks, not . or .."
    if len(name.encode()) > LONGEST_NAME_BYTES:
        return f"a name has at most {LONGEST_NAME_BYTES} bytes"
    return None


def path_fault(path: str) -> str | None:
    """What is wrong with a relative path; None: nothing."""
    if len(path.encode(errors="replace")) > LONGEST_PATH_BYTES:
        return f"a path has at most {LONGEST_PATH_BYTES} bytes"
    parts = path.split("/")
    if any(len(part.encode(errors="replace")) > LONGEST_NAME_BYTES for part in parts):
        return f"a name has at most {LONGEST_NAME_BYTES} bytes"
    if any(name_fault(part) is not None for part in parts):
        return "a path is relative, of plain names with / between them: no backslash, control or direction marks, no .."
    return None


def reserved_fault(path: str) -> str | None:
    """Why no file can be put at this path of a work folder; None: it can."""
    top = path.partition("/")[0]
    if top == "checkpoint":
        return "checkpoint is reserved for the task's checkpoint"
    return "names that begin with .rota- are reserved" if top.startswith(".rota-") else None
