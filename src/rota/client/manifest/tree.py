"""Parses a manifest, YAML or JSON, into a tree of nodes with their positions.

It accepts a subset of YAML: one document, no tags, no merge keys, no duplicate keys, and aliases only if they expand to
little. Plain scalars have their meaning in YAML 1.2 and JSON (`no` is text, a date is text); `values.py` converts them.
Whatever the bytes, the only error is `Unreadable`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import yaml

LARGEST_BYTES = 4 * 1024 * 1024
LARGEST_EXPANDED = 4 * LARGEST_BYTES  # characters with all aliases expanded, plus NODE_COST for each value
NODE_COST = 32
DEEPEST = 64

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
# Only the parser's events are read, so it never builds objects.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in the text; both count from 1."""

    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class Scalar:
    mark: Mark
    text: str
    quoted: bool  # a quoted scalar is always text


@dataclass(frozen=True, slots=True)
class ListNode:
    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MappingNode:
    mark: Mark
    entries: tuple[tuple[Scalar, Node], ...]


Node: TypeAlias = Scalar | ListNode | MappingNode


class Unreadable(Exception):
    """The text is not a manifest; `detail` says why, `mark` where."""

    def __init__(self, detail: str, mark: Mark) -> None:
        super().__init__(detail)
        self.detail = detail
        self.mark = mark


def read_tree(data: bytes, *, is_json: bool) -> Node:
    """The one document in these bytes."""
    if len(data) > LARGEST_BYTES:
        raise Unreadable(f"larger than the limit of {LARGEST_BYTES // 2**20} MiB", Mark())
    try:
        text = data.decode("utf-8-sig")  # some editors begin with a byte order mark
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"not UTF-8 text (byte {error.start})", _mark(data[: error.start].decode(errors="replace"), -1)
        ) from None
    forbidden = _FORBIDDEN.search(text)
    if forbidden is not None:
        raise Unreadable(
            f"the character U+{ord(forbidden[0]):04X} is not allowed in a manifest", _mark(text, forbidden.start())
        )
    if not text.strip():
        raise Unreadable("empty; a manifest needs at least a command, e.g. command: [echo, hi]", Mark())
    return _json_tree(text) if is_json else _yaml_tree(text)


@dataclass(slots=True)
class _Open:
    """A list or mapping that is still being read."""

    mark: Mark
    is_mapping: bool
    anchor: str | None = None
    nodes: list[Node] = field(default_factory=list)  # of a mapping: key, value, key, value, …
    names: dict[str, Mark] = field(default_factory=dict)
    expanded: int = NODE_COST

    def closed(self) -> Node:
        if not self.is_mapping:
            return ListNode(self.mark, tuple(self.nodes))
        keys = [node for node in self.nodes[::2] if isinstance(node, Scalar)]
        return MappingNode(self.mark, tuple(zip(keys, self.nodes[1::2], strict=True)))

    def wants_key(self) -> bool:
        return self.is_mapping and len(self.nodes) % 2 == 0


class _Builder:
    """Builds the tree, within the limits for both YAML and JSON."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}

    def open(self, mark: Mark, *, is_mapping: bool, anchor: str | None = None) -> None:
        if len(self._open) >= DEEPEST:
            raise Unreadable(f"nested deeper than {DEEPEST} levels", mark)
        if self._open and self._open[-1].wants_key():
            raise Unreadable("a key must be text, not a list or a mapping", mark)
        if anchor is not None:
            self._anchors.pop(anchor, None)  # it is redefined here, and can't be used inside itself
        self._open.append(_Open(mark, is_mapping, anchor))

    def close(self) -> None:
        ended = self._open.pop()
        self._add(ended.closed(), ended.expanded, ended.anchor)

    def scalar(self, scalar: Scalar, anchor: str | None = None) -> None:
        self._add(scalar, NODE_COST + len(scalar.text), anchor)

    def alias(self, name: str, mark: Mark) -> None:
        if any(node.anchor == name for node in self._open):
            raise Unreadable(f"*{name[:80]} is used inside its own anchor", mark)
        if name not in self._anchors:
            raise Unreadable(f"*{name[:80]} has no anchor &{name[:80]} before it", mark)
        node, expanded = self._anchors[name]
        self._add(node, expanded, None, mark)

    def _add(self, node: Node, expanded: int, anchor: str | None, alias_at: Mark | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, expanded)
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if parent.wants_key():
            self._check_key(parent, node, alias_at)
        parent.nodes.append(node)
        parent.expanded += expanded
        if parent.expanded > LARGEST_EXPANDED:
            raise Unreadable(
                "too large with all aliases expanded; use fewer aliases, or split the file", alias_at or node.mark
            )

    @staticmethod
    def _check_key(parent: _Open, key: Node, alias_at: Mark | None) -> None:
        if alias_at is not None or not isinstance(key, Scalar):
            raise Unreadable("a key must be text, not a list, a mapping or an alias", alias_at or key.mark)
        if key.text == "<<" and not key.quoted:
            raise Unreadable("merge keys (<<) are not supported; use defaults:, or repeat the fields", key.mark)
        first = parent.names.setdefault(key.text, key.mark)
        if first is not key.mark:
            raise Unreadable(f"the key {key.text[:80]!r} appears twice; the first is in line {first.line}", key.mark)


def _yaml_tree(text: str) -> Node:
    builder = _Builder()
    documents = 0
    for event in _events(text):
        mark = _marked(event.start_mark)
        tag: str | None = getattr(event, "tag", None)
        if tag is not None:
            raise Unreadable(f"the tag {tag[:80]!r} is not allowed; write plain values", mark)
        match event:
            case yaml.DocumentStartEvent():
                documents += 1
                if documents > 1:
                    raise Unreadable("a second document begins here; a manifest is one document", mark)
            case yaml.MappingStartEvent():
                builder.open(mark, is_mapping=True, anchor=event.anchor)
            case yaml.SequenceStartEvent():
                builder.open(mark, is_mapping=False, anchor=event.anchor)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                builder.close()
            case yaml.ScalarEvent():
                builder.scalar(Scalar(mark, event.value, quoted=not event.implicit[0]), event.anchor)
            case yaml.AliasEvent():
                builder.alias(str(event.anchor), mark)
    if builder.root is None:
        raise Unreadable("empty; a manifest needs at least a command, e.g. command: [echo, hi]", Mark())
    return builder.root


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = _marked(error.problem_mark or error.context_mark)
        line = text.split("\n")[mark.line - 1 : mark.line]
        hint = "; between brackets, ${…} needs quotes" if line and "${" in line[0] else ""
        raise Unreadable(f"not YAML: {error.problem or error.context}{hint}", mark) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # a bad escape, in the parser written in Python
        raise Unreadable(f"not YAML: {' '.join(str(error).split())[:200]}", Mark()) from None


def _marked(mark: Any) -> Mark:
    """From a mark of the parser, which counts from 0."""
    return Mark() if mark is None else Mark(mark.line + 1, mark.column + 1)


def _json_tree(text: str) -> Node:
    """`json` checks the syntax; the tokens give the positions."""
    try:
        json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error.msg}", Mark(error.lineno, error.colno)) from None
    except RecursionError:
        raise Unreadable(f"nested deeper than {DEEPEST} levels", Mark()) from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {str(error)[:200]}", Mark()) from None
    builder, positions = _Builder(), _Positions(text)
    for token in _JSON_TOKEN.finditer(text):
        word, mark = token[0], positions.at(token.start())
        if word in "{[":
            builder.open(mark, is_mapping=word == "{")
        elif word in "}]":
            builder.close()
        elif word[0] == '"':
            builder.scalar(Scalar(mark, json.loads(word), quoted=True))
        elif word not in ",:":
            builder.scalar(Scalar(mark, word, quoted=False))
    assert builder.root is not None, "json.loads has found a value"
    return builder.root


class _Positions:
    """Converts offsets to marks; offsets must rise."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._begins = 1, 0

    def at(self, offset: int) -> Mark:
        while (end := self._text.find("\n", self._begins, offset)) >= 0:
            self._line, self._begins = self._line + 1, end + 1
        return Mark(self._line, offset - self._begins + 1)


def _mark(text: str, offset: int) -> Mark:
    return _Positions(text).at(len(text) if offset < 0 else offset)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _finite(word: str) -> float:
    number = float(word)
    if math.isinf(number):
        raise ValueError(f"{word[:40]} is too large")
    return number
