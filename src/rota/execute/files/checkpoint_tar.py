"""Packs a checkpoint folder into a tar and unpacks it. Blocks: call it in a thread.

The folder is the task's to write, so it is walked through directory descriptors, one name at a time: no link is
followed, nothing waits, and only folders and plain files with one name are packed; everything else is left out and
counted. Equal folders make equal tars: names are sorted and owners left out. Unpacking fills a folder in which nothing
of the task runs yet, and accepts only what packing would have written.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from dataclasses import dataclass
from typing import BinaryIO

SAVE_NAME = ".save"  # a task makes this file to be saved now
FAILED_NAME = ".save-failed"  # its name after a save that failed
_NEVER_SAVED = (SAVE_NAME, FAILED_NAME)
DEEPEST = 64
MOST_ENTRIES = 100_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE_BYTES = 1024 * 1024


class BadCheckpoint(Exception):
    """It can't be packed or unpacked; the message says why."""


@dataclass(frozen=True, slots=True)
class Packed:
    entries: int  # files and folders
    left_out: int  # links, pipes, files with several names


def pack(folder: str, target: BinaryIO, *, limit_bytes: int) -> Packed:
    """Packs the folder; an empty one makes no entries. Raises `BadCheckpoint`."""
    walk = _Walk(target, limit_bytes)
    try:
        root = os.open(folder, _FOLDER)
        try:
            walk.take(root, "", 0)
        finally:
            os.close(root)
    except FileNotFoundError as error:
        if error.filename != folder:
            raise BadCheckpoint("a file was removed while it was read") from None
        # The task may remove the folder: then there is nothing to pack.
    except OSError as error:
        is_replaced = error.errno in (errno.ENOTDIR, errno.ELOOP)
        why = "its folder is no longer a folder" if is_replaced else error.strerror or error
        raise BadCheckpoint(f"it can't be read: {why}") from None
    finally:
        walk.close()
    return Packed(walk.entries, walk.left_out)


class _Walk:
    def __init__(self, target: BinaryIO, limit_bytes: int) -> None:
        self._tar = tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 (closed by `close`)
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self.entries = 0
        self.left_out = 0

    def close(self) -> None:
        self._tar.close()

    def take(self, folder: int, path: str, depth: int) -> None:
        if depth > DEEPEST:
            raise BadCheckpoint(f"its folders are more than {DEEPEST} deep")
        for name in sorted(os.listdir(folder)):
            if path == "" and name in _NEVER_SAVED:
                continue
            inner = f"{path}{name}"
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                self._enter(folder, name, inner, depth)
            elif stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
                self._take_file(folder, name, inner)
            else:
                self.left_out += 1

    def _enter(self, folder: int, name: str, path: str, depth: int) -> None:
        child = os.open(name, _FOLDER, dir_fd=folder)
        try:
            self._tar.addfile(self._member(path, os.fstat(child), tarfile.DIRTYPE))
            self.take(child, f"{path}/", depth + 1)
        finally:
            os.close(child)

    def _take_file(self, folder: int, name: str, path: str) -> None:
        descriptor = os.open(name, _FILE, dir_fd=folder)
        with open(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
                self.left_out += 1  # it has changed since a moment ago
                return
            self._size_bytes += facts.st_size
            if self._size_bytes > self._limit_bytes:
                raise BadCheckpoint(f"it is larger than {self._limit_bytes} bytes")
            member = self._member(path, facts, tarfile.REGTYPE)
            member.size = facts.st_size
            self._tar.addfile(member, file)  # raises OSError if the file has become shorter

    def _member(self, path: str, facts: os.stat_result, kind: bytes) -> tarfile.TarInfo:
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            raise BadCheckpoint(f"it has more than {MOST_ENTRIES} files and folders")
        member = tarfile.TarInfo(path)
        member.type = kind
        member.mode = facts.st_mode & 0o777
        # A folder's time changes as it is filled: kept, the same files would pack differently from attempt to attempt.
        member.mtime = int(facts.st_mtime) if kind == tarfile.REGTYPE else 0
        return member


def unpack(source: BinaryIO, folder: str, owner: int | None, *, limit_bytes: int) -> None:
    """Fills an empty folder, for its owner. Raises `BadCheckpoint`; the folder's content is then useless."""
    root = os.open(folder, _FOLDER)
    left = limit_bytes
    try:
        with tarfile.open(fileobj=source, mode="r:") as tar:
            for count, member in enumerate(tar):
                left -= member.size
                if left < 0 or count >= MOST_ENTRIES:
                    raise BadCheckpoint("it is larger than a checkpoint may be")
                _put(tar, member, root, owner)
    except (tarfile.TarError, EOFError, UnicodeError, ValueError) as error:
        raise BadCheckpoint(f"it is not a complete tar archive: {error}") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise BadCheckpoint(f"it can't be unpacked: {error.strerror or error}") from None
    finally:
        os.close(root)


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, root: int, owner: int | None) -> None:
    *folders, name = member.name.split("/")
    if not (member.isdir() or member.isreg()) or any(part in ("", ".", "..") for part in (*folders, name)):
        raise BadCheckpoint(f"{member.name[:80]!r} is not a plain file or folder")
    current = os.dup(root)
    try:
        for part in folders:
            following = os.open(part, _FOLDER, dir_fd=current)
            os.close(current)
            current = following
        if member.isdir():
            os.mkdir(name, 0o700, dir_fd=current)
        else:
            _copy(tar, member, current, name)
        # Nobody but us has been here: `name` is what we have just made.
        if owner is not None:
            os.chown(name, owner, owner, dir_fd=current, follow_symlinks=False)
        os.chmod(name, member.mode & 0o777 | (0o700 if member.isdir() else 0o600), dir_fd=current)
        os.utime(name, (member.mtime, member.mtime), dir_fd=current, follow_symlinks=False)
    finally:
        os.close(current)


def _copy(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: int, name: str) -> None:
    content = tar.extractfile(member)
    assert content is not None, "a plain file has content"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        done = 0
        while piece := content.read(_PIECE_BYTES):
            file.write(piece)
            done += len(piece)
        if done != member.size:
            raise BadCheckpoint(f"{member.name[:80]!r} ends early")
