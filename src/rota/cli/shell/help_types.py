"""What `--help` shows beside an option: the metavar it was declared with, nothing beside a flag, else a word.

Typer shows Python's types instead, such as `--env <list[str]>` for `--env NAME=VALUE`, and `--wait <bool>`, which
invites `--wait true`. It has no setting for this; in a version whose internals differ, nothing is replaced.
"""

from __future__ import annotations

from typing import Any

import typer.core

_WORDS = {"<str>": "TEXT", "<int>": "NUMBER", "<int range>": "NUMBER", "<list[str]>": "TEXT", "<list[int]>": "NUMBER"}


def replace() -> None:
    """Replace Typer's types in the help of this process."""
    kind: Any
    for kind in (typer.core.TyperOption, typer.core.TyperArgument):
        if hasattr(kind, "display_type_rich"):
            kind.display_type_rich = _shown


def _shown(parameter: Any, ctx: Any) -> str | None:
    if getattr(parameter, "is_flag", False):
        return None
    if parameter.metavar is not None:  # an argument's metavar stands to the left of this column
        return None if isinstance(parameter, typer.core.TyperArgument) else str(parameter.metavar)
    shown: str = parameter.display_type(ctx)
    return _WORDS.get(shown, shown)
