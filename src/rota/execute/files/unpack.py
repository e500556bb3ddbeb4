"""Unpacks an untrusted archive into an empty folder: regular files and folders, and nothing else.

Every member is checked before anything is made of it; the first one that is not plain is refused by name, and the
whole archive with it (the caller throws away what was unpacked so far). Bytes and members are counted as they arrive,
not as they are declared. Files are made through directory descriptors, never through a link, and never over an existing
one. It imports nothing but the standard library, so that it runs inside a sandbox:

    python -m rota.execute.files.unpack ARCHIVE FOLDER LIMIT_BYTES LIMIT_FILES [RESERVED…]

RESERVED are names that no member may have at the top of the folder; with a star at the end, every name that begins so.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO, Protocol, TypeVar

_PIECE_BYTES = 256 * 1024
_LONGEST_PART_BYTES = 255
_LONGEST_PATH_BYTES = 1024
_DEEPEST = 64
_LARGEST_HEADER_BYTES = 64 * 1024  # a name's extension, in a tar; the library holds it in memory
_LARGEST_INDEX_BYTES = 64 * 1024 * 1024  # a zip's list of members; the library holds it in memory
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, struct.error),
    *(OverflowError, RecursionError, NotImplementedError, RuntimeError, IndexError, KeyError, MemoryError),
)

REFUSED, TOO_LARGE = 1, 3  # exit codes

T = TypeVar("T")


class Unsafe(Exception):
    """The archive is refused; the message names the member and the problem."""


class TooLarge(Unsafe):
    """The content is larger than allowed; at least `size_bytes`."""

    def __init__(self, message: str, size_bytes: int) -> None:
        super().__init__(message)
        self.size_bytes = size_bytes


@dataclass(frozen=True, slots=True)
class Unpacked:
    files: int
    folders: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    is_folder: bool
    is_executable: bool
    content: IO[bytes] | None  # None for a folder
    declared_bytes: int = 0  # for messages only: the bytes that arrive are counted


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def unpack(
    archive: BinaryIO, folder: int, *, limit_bytes: int, limit_files: int, reserved: Sequence[str] = ()
) -> Unpacked:
    """Unpacks into the empty folder behind the descriptor. A bad archive is `Unsafe`; a full disk stays an OSError."""
    if os.listdir(folder):
        raise Unsafe("the folder to unpack into is not empty")
    made = _Tree(folder, limit_bytes=limit_bytes, limit_files=limit_files, reserved=reserved)
    members = _members(archive, limit_bytes=limit_bytes, limit_files=limit_files)
    while (member := _careful(lambda: next(members, None))) is not None:
        made.add(member)
    return Unpacked(made.files, made.folders, made.size_bytes)


def _careful(read: Callable[[], T]) -> T:
    """Turns every error of the libraries about an unreadable archive into one answer."""
    try:
        return read()
    except Unsafe:
        raise
    except _BROKEN as error:
        raise Unsafe(f"the archive is damaged or not an archive ({type(error).__name__})") from None


# ---- what is in it -------------------------------------------------------------------------------------------------


def _members(archive: BinaryIO, *, limit_bytes: int, limit_files: int) -> Iterator[_Member]:
    head = archive.read(6)
    archive.seek(0)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_members(archive)
    stream: _Readable = archive
    if head.startswith(b"\x1f\x8b"):
        stream = gzip.GzipFile(fileobj=archive)
    elif head.startswith(b"BZh"):
        stream = bz2.BZ2File(archive)
    elif head.startswith(b"\xfd7zXZ\x00"):
        stream = lzma.LZMAFile(archive)  # noqa: SIM115  # it holds nothing open but the archive, which is the caller's
    # A tar's headers and padding come on top of its files: at most three blocks for each, and the end.
    return _tar_members(_Bounded(stream, limit_bytes + (limit_files + 64) * 4096 + _LARGEST_HEADER_BYTES))


class _Bounded:
    """A stream that raises a refusal once too much has come out of it, however little went in."""

    def __init__(self, stream: _Readable, limit_bytes: int) -> None:
        self._stream = stream
        self._left = limit_bytes

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise Unsafe("the archive unpacks to more than is allowed")
        return data


class _CarefulHeader(tarfile.TarInfo):
    """The library would read a name of any length into memory, and take garbage after the first member for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> _CarefulHeader:
        try:
            return super().fromtarfile(archive)
        except (tarfile.EmptyHeaderError, tarfile.EOFHeaderError):  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise Unsafe(f"the archive is damaged or not an archive ({error})") from None

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        pax = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
        extension = self.type in (*pax, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
        if self.size < 0 or (extension and self.size > _LARGEST_HEADER_BYTES):
            raise Unsafe(f"{_printable(self.name)}: its header is not that of a valid archive")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def _tar_members(stream: _Bounded) -> Iterator[_Member]:
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_CarefulHeader) as archive:  # type: ignore[call-overload]
        while (header := archive.next()) is not None:
            if header.isdir():
                yield _Member(header.name, is_folder=True, is_executable=True, content=None)
                continue
            if header.size < 0 or not header.isreg() or header.issparse():
                raise Unsafe(f"{_printable(header.name)}: is {_tar_kind(header)}; only files and folders are unpacked")
            executable = bool(header.mode & stat.S_IXUSR)
            yield _Member(header.name, False, executable, archive.extractfile(header), header.size)
            archive.members = []  # else the library remembers them all


def _tar_kind(header: tarfile.TarInfo) -> str:
    if header.issym():
        return "a symbolic link"
    if header.islnk():
        return "a hard link"
    if header.isfifo():
        return "a FIFO"
    if header.ischr() or header.isblk():
        return "a device"
    return "a sparse file" if header.issparse() else "of an unknown kind"


def _zip_members(archive: BinaryIO) -> Iterator[_Member]:
    end = zipfile._EndRecData(archive)  # type: ignore[attr-defined]
    if not end or end[5] > _LARGEST_INDEX_BYTES:
        raise Unsafe("the archive's list of members is missing or too long")
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            name = entry.orig_filename  # as written: the library cuts at NUL
            mode = entry.external_attr >> 16
            kind = stat.S_IFMT(mode)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                what = "a symbolic link" if kind == stat.S_IFLNK else "neither a file nor a folder"
                raise Unsafe(f"{_printable(name)}: is {what}; only files and folders are unpacked")
            if name.endswith("/") or kind == stat.S_IFDIR:
                yield _Member(name, is_folder=True, is_executable=True, content=None)
                continue
            if entry.flag_bits & 1:
                raise Unsafe(f"{_printable(name)}: is encrypted")
            with opened.open(entry) as content:
                yield _Member(name, False, bool(mode & stat.S_IXUSR), content, entry.file_size)


# ---- what is made of it --------------------------------------------------------------------------------------------


class _Tree:
    def __init__(self, folder: int, *, limit_bytes: int, limit_files: int, reserved: Sequence[str]) -> None:
        self._folder = folder
        self._reserved = reserved
        self._limit_bytes = limit_bytes
        self._limit_files = limit_files
        self._folders: set[str] = set()
        self._spelled: dict[str, str] = {}  # by the name on a file system without capitals
        self.files = 0
        self.size_bytes = 0

    @property
    def folders(self) -> int:
        return len(self._folders)

    def add(self, member: _Member) -> None:
        parts = _parts(member.name)
        if not parts:
            if member.is_folder:
                return  # the folder itself, as `tar c .` writes it
            raise Unsafe(f"{_printable(member.name)}: has no name")
        if any(_matches(parts[0], name) for name in self._reserved):
            raise Unsafe(f"{_printable(member.name)}: {_printable(parts[0])} is a reserved name")
        parent, opened = self._open(parts if member.is_folder else parts[:-1], member.name)
        try:
            if not member.is_folder:
                self._write(parent, parts, member)
        finally:
            if opened:
                os.close(parent)

    def _open(self, parts: list[str], member_name: str) -> tuple[int, bool]:
        """The folder at the end of the path, made where it is missing; whether the caller must close the descriptor."""
        current, ours = self._folder, False
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            if path not in self._folders:
                self._claim(path, member_name)
                try:
                    os.mkdir(parts[depth - 1], 0o755, dir_fd=current)
                except FileExistsError:
                    raise Unsafe(f"{_printable(member_name)}: {_printable(path)} is a file and a folder") from None
                self._folders.add(path)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            following = os.open(parts[depth - 1], flags, dir_fd=current)
            if ours:
                os.close(current)
            current, ours = following, True
        return current, ours

    def _claim(self, path: str, member_name: str) -> None:
        if self.files + len(self._folders) >= self._limit_files:
            raise Unsafe(f"{_printable(member_name)}: the archive has more than {self._limit_files} files and folders")
        before = self._spelled.setdefault(path.casefold(), path)
        if before != path:
            raise Unsafe(f"{_printable(member_name)}: differs from {_printable(before)} in capitals only")
        if path in self._folders:
            raise Unsafe(f"{_printable(member_name)}: is a file and a folder")

    def _write(self, parent: int, parts: list[str], member: _Member) -> None:
        path = "/".join(parts)
        self._claim(path, member.name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(parts[-1], flags, 0o600, dir_fd=parent)
        except FileExistsError:
            raise Unsafe(f"{_printable(member.name)}: is in the archive twice") from None
        content = member.content
        assert content is not None, "a file has content"
        expected_bytes = self.size_bytes + member.declared_bytes
        with os.fdopen(descriptor, "wb") as file:
            while piece := _careful(lambda: content.read(_PIECE_BYTES)):
                self.size_bytes += len(piece)
                if self.size_bytes > self._limit_bytes:
                    message = f"{_printable(member.name)}: the archive unpacks to more than {self._limit_bytes} bytes"
                    raise TooLarge(message, max(self.size_bytes, expected_bytes))
                file.write(piece)
            # Of the mode only the executable bit counts: no set-user-id, no odd rights.
            os.fchmod(file.fileno(), 0o755 if member.is_executable else 0o644)
        self.files += 1


def _parts(name: str) -> list[str]:
    """A relative path's parts. Absolute paths, `..`, and names with another meaning elsewhere are refused."""
    if "\0" in name or "\\" in name:
        raise Unsafe(f"{_printable(name)}: has a NUL or a backslash in its name")
    if name.startswith("/"):
        raise Unsafe(f"{_printable(name)}: is an absolute path")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise Unsafe(f"{_printable(name)}: its name is not UTF-8") from None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Unsafe(f"{_printable(name)}: leads out of the folder")
    if len(encoded) > _LONGEST_PATH_BYTES or len(parts) > _DEEPEST:
        raise Unsafe(f"{_printable(name)}: is too long or too deep")
    if any(len(part.encode()) > _LONGEST_PART_BYTES for part in parts):
        raise Unsafe(f"{_printable(name)}: has a part of more than {_LONGEST_PART_BYTES} bytes")
    return parts


def _matches(name: str, reserved: str) -> bool:
    return name.startswith(reserved[:-1]) if reserved.endswith("*") else name == reserved


def _printable(name: str) -> str:
    """Harmless on a terminal, and short."""
    return ascii(name if len(name) <= 120 else name[:120] + "…")


# ---- as a program --------------------------------------------------------------------------------------------------


def main(words: list[str]) -> int:
    """0 and a line of JSON; 1 and a sentence when the archive is refused; 2 when called wrongly.

    3 when the content is too large: a sentence, and on the line before it the least number of bytes.
    """
    if len(words) < 4 or not all(word.isascii() and word.isdigit() for word in words[2:4]):
        sys.stderr.write("usage: unpack ARCHIVE FOLDER LIMIT_BYTES LIMIT_FILES [RESERVED…]\n")
        return 2
    try:
        with open(words[0], "rb") as archive:
            folder = os.open(words[1], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                limit_bytes, limit_files = int(words[2]), int(words[3])
                done = unpack(archive, folder, limit_bytes=limit_bytes, limit_files=limit_files, reserved=words[4:])
            finally:
                os.close(folder)
    except TooLarge as refusal:
        sys.stderr.write(f"{refusal.size_bytes}\n{refusal}\n")
        return TOO_LARGE
    except Unsafe as refusal:
        sys.stderr.write(f"{refusal}\n")
        return REFUSED
    except OSError as error:
        sys.stderr.write(f"{error.filename or words[1]}: {error.strerror}\n")
        return 2
    sys.stdout.write(json.dumps({"files": done.files, "folders": done.folders, "bytes": done.size_bytes}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
