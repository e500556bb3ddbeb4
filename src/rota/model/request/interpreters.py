"""The program that runs a script without a `#!` line: chosen by the suffix of the script's file. Pure.

The client asks for a script that it sends, admission for an uploaded one, the node for a file of its own. The keeper
imports this module, so it needs the standard library only.
"""

from __future__ import annotations

import os

_SHELL: tuple[str, ...] = ()  # none: sh runs it

_BY_SUFFIX: dict[str, tuple[str, ...]] = {
    "": _SHELL,
    ".sh": _SHELL,
    ".bash": ("bash",),
    ".dash": ("dash",),
    ".fish": ("fish",),
    ".ksh": ("ksh",),
    ".zsh": ("zsh",),
    ".awk": ("awk", "-f"),
    ".cjs": ("node",),
    ".jl": ("julia",),
    ".js": ("node",),
    ".lua": ("lua",),
    ".mjs": ("node",),
    ".php": ("php",),
    ".pl": ("perl",),
    ".py": ("python3",),
    ".r": ("Rscript",),
    ".rb": ("ruby",),
    ".tcl": ("tclsh",),
}


class NoInterpreter(ValueError):
    """Nobody knows what runs such a file; the text says what to do."""


def interpreter_by_suffix(file: str) -> list[str] | None:
    """The program and its options; None: sh, or the suffix is not known."""
    return list(_BY_SUFFIX.get(_suffix_of(file), _SHELL)) or None


def interpreter_of(file: str, text: str) -> list[str] | None:
    """The program that a script's text needs besides what it says itself; None: its `#!` line, or sh."""
    if text.startswith("#!"):
        return None
    suffix = _suffix_of(file)
    if suffix not in _BY_SUFFIX:
        raise NoInterpreter(
            f"{file} has no #! line, and no program is known that runs {suffix[:20]} files; "
            "begin it with a line such as #!/usr/bin/env python3"
        )
    return interpreter_by_suffix(file)


def _suffix_of(file: str) -> str:
    return os.path.splitext(file)[1].lower()
