"""Converts a manifest's tree to plain values, replaces variables, and records the position of every value.

`${NAME}` is allowed in values, and is replaced by the value of `--set`, never by the environment. The text of a script
is not changed: `${…}` there belongs to its shell. An unquoted result is a plain scalar: `attempts: ${N}` is a number;
a quoted one is text. A replaced value is never parsed as YAML, so it can't add structure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.client.manifest.tree import ListNode, Mark, Node, Scalar
from rota.model.errors import Fault
from rota.model.request.structure import pointer_part

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_VARIABLE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{", re.ASCII)
_SHELL_TEXT = re.compile(r"^(?:/tasks/[^/]*|/defaults)?/(?:script|commands/\d+|stages/\d+/script)\Z")
_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_FRACTION = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


@dataclass(slots=True)
class Positions:
    """The position of each value and key, by JSON pointer; where there is none, the position of the parent."""

    values: dict[str, Mark] = field(default_factory=dict)
    keys: dict[str, Mark] = field(default_factory=dict)

    def of(self, pointer: str, *, key: bool = False) -> Mark:
        marks = self.keys if key else self.values
        while pointer and pointer not in marks:
            pointer, marks = pointer.rpartition("/")[0], self.values
        return marks.get(pointer, Mark())


@dataclass(frozen=True, slots=True)
class Values:
    value: Any
    positions: Positions
    faults: tuple[Fault, ...]


def read_values(tree: Node, variables: Mapping[str, str]) -> Values:
    """The tree as JSON values. An unused variable is a fault: it is probably a typing error."""
    reader = _Reader(variables)
    value = reader.read(tree, "")
    for name in sorted(set(variables) - reader.used):
        hint = "; a script's ${…} belongs to its shell: pass it on with env:" if name in reader.shell_names else ""
        reader.faults.append(Fault("", "unused-variable", f"the variable {name!r} is not used{hint}"))
    return Values(value, reader.positions, tuple(reader.faults))


class _Reader:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self.positions = Positions()
        self.faults: list[Fault] = []
        self.used: set[str] = set()
        self.shell_names: set[str] = set()
        self._variables = variables

    def read(self, node: Node, pointer: str) -> Any:
        self.positions.values[pointer] = node.mark
        if isinstance(node, Scalar):
            return self._scalar(node, pointer)
        if isinstance(node, ListNode):
            return [self.read(item, f"{pointer}/{index}") for index, item in enumerate(node.items)]
        mapping: dict[str, Any] = {}
        for key, value in node.entries:
            below = f"{pointer}/{pointer_part(key.text)}"
            self.positions.keys[below] = key.mark
            if "${" in key.text:
                self._fault(
                    below, "variable-in-key", f"{key.text[:80]!r}: variables are allowed in values, not in keys"
                )
            mapping[key.text] = self.read(value, below)
        return mapping

    def _scalar(self, scalar: Scalar, pointer: str) -> Any:
        text = scalar.text
        if _SHELL_TEXT.match(pointer):
            self.shell_names.update(match[1] for match in _VARIABLE.finditer(text) if match[1])
            return text if scalar.quoted else self._plain(text, pointer)
        if "${" in text:
            text = _VARIABLE.sub(lambda match: self._filled(match, pointer), text)
        return text if scalar.quoted else self._plain(text, pointer)

    def _filled(self, match: re.Match[str], pointer: str) -> str:
        name = match[1]
        if match[0] == "$${":
            return "${"
        if name is None or not VARIABLE_NAME.fullmatch(name):
            shown = match[0] if len(match[0]) <= 60 else match[0][:57] + "…"
            self._fault(
                pointer, "bad-variable", f"{shown!r} is not a variable; write ${{NAME}}, or $${{ for a plain ${{"
            )
        elif name not in self._variables:
            hint = f"give --set {name}=VALUE, or write $${{{name}}} for the text"
            self._fault(pointer, "undeclared-variable", f"the variable {name!r} has no value; {hint}")
        else:
            self.used.add(name)
            return self._variables[name]
        return match[0]

    def _plain(self, text: str, pointer: str) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if _WHOLE.fullmatch(text):
            if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
                self._fault(pointer, "out-of-range", f"{text[:60]} is too large; put it in quotes")
                return 0
            return int(text)
        if _FRACTION.fullmatch(text) and len(text) <= 400 and not math.isinf(number := float(text)):
            return number
        return text

    def _fault(self, pointer: str, code: str, detail: str) -> None:
        self.faults.append(Fault(pointer, code, detail))
