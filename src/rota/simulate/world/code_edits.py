"""Changes the code of a function for a while, from outside: the way the simulator breaks Rota on purpose.

An edit replaces one piece of text in one function. The whole module is compiled again with that text, and the
function's `__code__` is swapped, so every reference to the function runs the changed code: methods, coroutines,
closures and decorated functions too. Afterwards the function has its own code object back. Signatures and defaults
cannot be changed this way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any, cast


class DoesNotFit(Exception):
    """The text that an edit replaces is not in its function, or is there more than once."""


@dataclass(frozen=True, slots=True)
class Edit:
    """`old` must occur exactly once in the function. Lines after the first are indented relative to the first one's."""

    function: Callable[..., Any]
    old: str
    new: str

    @property
    def where(self) -> str:
        return f"{self.function.__module__.removeprefix('rota.')}.{self.function.__qualname__}"


class Mutation:
    """A bug: its name, one sentence on the wrong behaviour, and the edits that cause it."""

    def __init__(self, name: str, sentence: str, *edits: Edit) -> None:
        self.name = name
        self.sentence = sentence
        self.edits = edits

    def edit(self, function: Callable[..., Any], old: str, new: str) -> None:
        self.edits += (Edit(function, old, new),)

    @property
    def where(self) -> str:
        return ", ".join(dict.fromkeys(edit.where for edit in self.edits))


@contextmanager
def edited(edits: tuple[Edit, ...]) -> Iterator[None]:
    """Runs the body with these edits in force. Raises DoesNotFit, and has changed nothing then."""
    changed = changed_code(edits)
    originals = {function: function.__code__ for function in changed}
    try:
        for function, code in changed.items():
            function.__code__ = code
        yield
    finally:
        for function, code in originals.items():
            function.__code__ = code


@cache
def changed_code(edits: tuple[Edit, ...]) -> dict[FunctionType, CodeType]:
    """Each function that the edits change, with its changed code."""
    by_function: dict[FunctionType, list[Edit]] = {}
    for edit in edits:
        by_function.setdefault(cast(FunctionType, inspect.unwrap(edit.function)), []).append(edit)
    return {function: _compiled(function, own) for function, own in by_function.items()}


def _compiled(function: FunctionType, edits: list[Edit]) -> CodeType:
    module, _ = inspect.findsource(function)
    lines, first = inspect.getsourcelines(function)
    source = "".join(lines)
    for edit in edits:
        source = _replaced(source, edit)
    text = "".join([*module[: first - 1], source, *module[first - 1 + len(lines) :]])
    original = function.__code__
    pending = [compile(text, original.co_filename, "exec", dont_inherit=True)]
    while pending:
        code = pending.pop()
        if (code.co_qualname, code.co_firstlineno) == (original.co_qualname, original.co_firstlineno):
            return code
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    raise AssertionError(f"{function.__qualname__} is not in the module that it came from")


def _replaced(source: str, edit: Edit) -> str:
    first_line = edit.old.partition("\n")[0]
    matches = []
    start = source.find(first_line)
    while start >= 0:
        line = source[source.rfind("\n", 0, start) + 1 :]
        indent = line[: len(line) - len(line.lstrip())]
        old = edit.old.replace("\n", "\n" + indent)
        if source.startswith(old, start):
            matches.append((start, start + len(old), indent))
        start = source.find(first_line, start + 1)
    if len(matches) != 1:
        raise DoesNotFit(f"{edit.where}: this text occurs {len(matches)} times, and must occur once:\n{edit.old}")
    ((begin, end, indent),) = matches
    return source[:begin] + edit.new.replace("\n", "\n" + indent) + source[end:]
