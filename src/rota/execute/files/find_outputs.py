"""Finds the outputs of a task in its untrusted folder. Blocks: call it in a thread.

Everything goes through directory descriptors, one name at a time; no link is followed, nothing is opened that is not
a plain file with one name, and nothing waits. A link, socket, FIFO or device that a wildcard matches is skipped; one
that a pattern names is refused, because its owner wants it. So is a folder with too many entries. Nothing of the task
runs any more.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rota.model.artifact import path_fault

MOST_OUTPUTS = 1_000
MOST_NAMES = 200_000  # names, over all patterns
DEEPEST = 64
_ANY_DEPTH = "**"
_WILD = re.compile(r"[*?\[]")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


Hide = Callable[[str], str]


class BadOutput(Exception):
    """An output can't be taken; the message names the file and the problem."""


@dataclass(frozen=True, slots=True)
class Output:
    path: str  # relative to the folder
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    outputs: list[Output]
    skipped: list[str]  # what the patterns match and can't be kept: each with its path and the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    files: int = MOST_OUTPUTS
    size_bytes: int
    looked_at: int = MOST_NAMES


def find(folder: str, patterns: Sequence[str], limits: Limits, hide: Hide = str) -> Found:
    """The plain files that match, each once, in order. A pattern without wildcards must match.

    `hide` masks secrets in a name: a name that holds one is refused, because names are shown.
    """
    try:
        root = os.open(folder, _FOLDER)
    except FileNotFoundError:
        root = None  # it was empty and is already gone
    try:
        walk = _Walk(root, limits, hide)
        for pattern in patterns:
            walk.search_for(pattern)
    finally:
        if root is not None:
            os.close(root)
    return Found(sorted(walk.outputs.values(), key=lambda output: output.path), sorted(walk.skipped.values()))


def open_output(folder: str, output: Output) -> int:
    """A descriptor to read a file that `find` found; every folder is checked again from the top."""
    current = os.open(folder, _FOLDER)
    try:
        *folders, name = output.path.split("/")
        for part in folders:
            following = os.open(part, _FOLDER, dir_fd=current)
            os.close(current)
            current = following
        # Non-blocking and never a controlling terminal: whatever the file has become, opening it has no other effect.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=current)
    except OSError as error:
        raise BadOutput(f"{_printable(output.path)}: {_reason(error)}") from None
    finally:
        os.close(current)
    trouble = _trouble(os.fstat(descriptor), None)
    if trouble is not None:
        os.close(descriptor)
        raise BadOutput(f"{_printable(output.path)}: {trouble}")
    return descriptor


class _Walk:
    def __init__(self, root: int | None, limits: Limits, hide: Hide) -> None:
        self._hide = hide
        self._root = root
        self._limits = limits
        self._device = None if root is None else os.fstat(root).st_dev
        self._looked_at = 0
        self._size_bytes = 0
        self.outputs: dict[str, Output] = {}
        self.skipped: dict[str, str] = {}  # by path

    def search_for(self, pattern: str) -> None:
        parts = pattern.split("/")
        if self._root is not None:
            self._search(self._root, "", parts)
        if not _WILD.search(pattern) and pattern not in self.outputs:
            raise BadOutput(f"{self._printable(pattern)}: the task left no such file")

    def _search(self, folder: int, above: str, parts: list[str]) -> None:
        """The matches of `parts` in the open folder and below."""
        part, rest = parts[0], parts[1:]
        if above.count("/") > DEEPEST:
            raise BadOutput(f"{self._printable(above)}: is deeper than {DEEPEST} folders")
        if part == _ANY_DEPTH:
            if rest:
                self._search(folder, above, rest)
            for name, facts in self._listed(folder, above):
                if stat.S_ISDIR(facts.st_mode) and not name.startswith("."):
                    self._below(folder, above, name, parts, named=False)
                elif not rest and not name.startswith("."):
                    self._take(above + name, facts, named=False)
        elif _WILD.search(part):
            matches = re.compile(fnmatch.translate(part)).match
            for name, facts in self._listed(folder, above):
                if not matches(name) or (name.startswith(".") and not part.startswith(".")):
                    continue
                if rest:
                    if stat.S_ISDIR(facts.st_mode):
                        self._below(folder, above, name, rest, named=False)
                elif not stat.S_ISDIR(facts.st_mode):
                    self._take(above + name, facts, named=False)
        elif rest:
            self._below(folder, above, part, rest, named=True)
        else:
            self._take_named(folder, above, part)

    def _below(self, folder: int, above: str, name: str, parts: list[str], *, named: bool) -> None:
        try:
            opened = os.open(name, _FOLDER, dir_fd=folder)
        except OSError as error:
            if named and error.errno == errno.ENOENT:
                return
            raise BadOutput(f"{self._printable(above + name)}: {_reason(error)}") from None
        try:
            if os.fstat(opened).st_dev != self._device:
                trouble = f"{self._printable(above + name)}: is on another file system"
                if named:
                    raise BadOutput(trouble)
                self.skipped[above + name] = trouble
                return
            self._search(opened, f"{above}{name}/", parts)
        finally:
            os.close(opened)

    def _listed(self, folder: int, above: str) -> Iterator[tuple[str, os.stat_result]]:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._looked_at += 1
                    if self._looked_at > self._limits.looked_at:
                        raise BadOutput(
                            f"{self._printable(above) if above else 'the folder'}: there are more than "
                            f"{self._limits.looked_at} names to look through; give narrower patterns"
                        )
                    yield entry.name, entry.stat(follow_symlinks=False)
        except OSError as error:
            raise BadOutput(f"{self._printable(above)}: {_reason(error)}") from None

    def _take_named(self, folder: int, above: str, name: str) -> None:
        try:
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            raise BadOutput(f"{self._printable(above + name)}: {_reason(error)}") from None
        if stat.S_ISDIR(facts.st_mode):
            pattern = self._printable(f"{above}{name}/**")
            raise BadOutput(f"{self._printable(above + name)}: is a folder; write {pattern} for all in it")
        self._take(above + name, facts, named=True)

    def _take(self, path: str, facts: os.stat_result, *, named: bool) -> None:
        """`named`: by a pattern without wildcards in this place."""
        if path in self.outputs:
            return
        refusal = path_fault(path) or ("has a secret in its name" if self._hide(path) != path else None)
        trouble = refusal or _trouble(facts, self._device)
        if trouble is not None and (named or refusal):
            raise BadOutput(f"{self._printable(path)}: {trouble}")
        if trouble is not None:
            self.skipped[path] = f"{self._printable(path)}: {trouble}"
            return
        if len(self.outputs) >= self._limits.files:
            raise BadOutput(
                f"{self._printable(path)}: is one more than the {self._limits.files} outputs a task may have"
            )
        self._size_bytes += facts.st_size
        if self._size_bytes > self._limits.size_bytes:
            raise BadOutput(
                f"{self._printable(path)}: with it the outputs have more than {self._limits.size_bytes} bytes"
            )
        self.outputs[path] = Output(path, facts.st_size)

    def _printable(self, path: str) -> str:
        return _printable(self._hide(path))  # in this order: half a secret would not be recognised


def _trouble(facts: os.stat_result, device: int | None) -> str | None:
    """Why it is not a plain file with one name; None when it is. A named folder is on the same file system."""
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }
    if not stat.S_ISREG(facts.st_mode):
        return f"is {kinds.get(stat.S_IFMT(facts.st_mode), 'of an unknown kind')}; only plain files are taken"
    if facts.st_nlink > 1:
        return "is a hard link: it has another name somewhere"
    return "is on another file system" if device is not None and facts.st_dev != device else None


def _reason(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "is a symbolic link or no folder; links are not followed"
    return (error.strerror or type(error).__name__).lower()


def _printable(path: str) -> str:
    """The path itself where it is harmless on a terminal."""
    shortened = path if len(path) <= 200 else path[:200] + "…"
    return shortened if shortened.isprintable() else ascii(shortened)
