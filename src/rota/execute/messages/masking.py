"""Masks the values of secrets in a task's output, result and failure. Pure.

Every stretch of bytes that belongs to an occurrence of a value becomes `***`; overlapping occurrences become one. A
stream may arrive in any pieces: only an end that could be the beginning of a value is kept back. Values of less than 8
bytes are left alone: they would be found in everything. Cheap to import: the warm children use it too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from rota.model.secret import Secret

MASK = b"***"
LEAST_BYTES = 8
MOST_LINES = 1024  # of all secrets of a task: enough for the largest key or certificate, in bounded time


def patterns_of(secrets: Iterable[Secret]) -> tuple[bytes, ...]:
    """The forms in which a value may be printed: as it is, as JSON, and as Python shows a string.

    Without the white space around it: tools drop the last line break. Each line of it as well: shells and tools may
    join or indent lines.
    """
    forms: dict[bytes, None] = {}
    left = MOST_LINES
    for secret in secrets:
        value = secret.value.strip()
        lines = [line for line in map(str.strip, value.splitlines()) if len(line.encode()) >= LEAST_BYTES][:left]
        left -= len(lines)
        for text in dict.fromkeys((value, *lines)):
            for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]):
                raw = form.encode()
                if len(raw) >= LEAST_BYTES:
                    forms[raw] = None
    return tuple(forms)


class Masker:
    """One stream's masking. `feed` gives what may go on, `finish` the rest.

    masker = Masker((b"hunter2hunter2",))
    masker.feed(b"it is hunter2"), masker.feed(b"hunter2!"), masker.finish()  # b"it is ", b"***!", b""
    """

    __slots__ = ("_covered", "_kept_back", "_patterns")

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self._patterns = patterns
        self._kept_back = b""
        self._covered = 0  # how much of the head of `_kept_back` belongs to a value whose mask has been given out

    def feed(self, data: bytes) -> bytes:
        whole = self._kept_back + data
        return self._give(
            whole, min((_unfinished_at(whole, pattern) for pattern in self._patterns), default=len(whole))
        )

    def finish(self) -> bytes:
        return self._give(self._kept_back, len(self._kept_back))

    def _give(self, whole: bytes, end: int) -> bytes:
        """Masked up to `end`, before which every value that begins also ends within `whole`."""
        parts = []
        at = self._covered  # everything before has been given out, or masked
        covered = self._covered
        for start, stop in _found(whole, self._patterns):
            if start >= end:
                break  # found again with the bytes kept back
            if start >= covered:
                parts += [whole[at:start], MASK]
            at = covered = max(covered, stop)
        if at < end:
            parts.append(whole[at:end])
        self._kept_back = whole[end:]
        self._covered = max(0, covered - end)
        return b"".join(parts)


class StreamMasks:
    """A masker for each of a task's streams."""

    __slots__ = ("_maskers", "_patterns")

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self._patterns = patterns
        self._maskers: dict[int, Masker] = {}

    def feed(self, stream: int, data: bytes) -> bytes:
        masker = self._maskers.get(stream)
        if masker is None:
            masker = self._maskers[stream] = Masker(self._patterns)
        return masker.feed(data)

    def finish(self) -> list[tuple[int, bytes]]:
        return [(stream, masker.finish()) for stream, masker in self._maskers.items()]


def masks_of(secrets: Sequence[Secret]) -> StreamMasks | None:
    """None when there is nothing to mask, which costs nothing."""
    patterns = patterns_of(secrets) if secrets else ()
    return StreamMasks(patterns) if patterns else None


def mask_bytes(data: bytes, patterns: Sequence[bytes]) -> bytes:
    masker = Masker(patterns)
    return masker.feed(data) + masker.finish()


def mask_text(text: str, patterns: Sequence[bytes]) -> str:
    if not patterns:
        return text
    return mask_bytes(text.encode(errors="backslashreplace"), patterns).decode(errors="replace")


def mask_cut_text(text: str, patterns: Sequence[bytes]) -> str:
    """For a text whose end was cut off: a possible beginning of a value at its end is masked as well."""
    masker = Masker(patterns)
    shown = masker.feed(text.encode(errors="backslashreplace"))
    return (shown + MASK if masker.finish() else shown).decode(errors="replace")


def mask_json(document: bytes, patterns: Sequence[bytes]) -> bytes:
    """A JSON document without values in its strings; one that holds a value in another way is masked whole."""
    if not any(pattern in document for pattern in patterns):
        return document
    masked = json.dumps(_masked(json.loads(document), patterns), separators=(",", ":"), ensure_ascii=False).encode()
    return msgspec.json.encode(MASK.decode()) if any(pattern in masked for pattern in patterns) else masked


def _masked(value: object, patterns: Sequence[bytes]) -> object:
    if isinstance(value, str):
        return mask_text(value, patterns)
    if isinstance(value, list):
        return [_masked(item, patterns) for item in value]
    if isinstance(value, dict):
        return {mask_text(name, patterns): _masked(item, patterns) for name, item in value.items()}
    return value


def _found(whole: bytes, patterns: Sequence[bytes]) -> list[tuple[int, int]]:
    """Positions of values, overlapping ones too, by their beginnings."""
    spans = []
    for pattern in patterns:
        start = whole.find(pattern)
        while start >= 0:
            spans.append((start, start + len(pattern)))
            start = whole.find(pattern, start + 1)
    spans.sort()
    return spans


def _unfinished_at(whole: bytes, pattern: bytes) -> int:
    """Where the rest of `whole` is first a proper beginning of `pattern`; the length of `whole` if nowhere."""
    size = len(whole)
    head = pattern[:LEAST_BYTES]
    view, prefix = memoryview(whole), memoryview(pattern)
    start = whole.find(head, max(0, size - len(pattern) + 1))
    while start >= 0:
        if view[start:] == prefix[: size - start]:
            return start
        start = whole.find(head, start + 1)
    for start in range(max(0, size - LEAST_BYTES + 1), size):  # too short by now to hold the whole head
        if pattern.startswith(whole[start:]):
            return start
    return size
