"""Attempts' private folders: below `data/work`, one each, removed when the attempt is over.

Removal never follows a symbolic link and copes with everything a task may leave behind: read-only folders, names that
are not text, trees deeper than the longest path. It works through directory descriptors, one level at a time, without
recursion.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable

SCRIPT_NAME = ".rota-script"
CHECKPOINT_NAME = "checkpoint"


def create(path: str, owner: int | None = None) -> None:
    """Fresh and empty, so giving it to `owner` is safe: none of its processes runs yet."""
    os.mkdir(path, 0o700)
    if owner is not None:
        os.chown(path, owner, owner, follow_symlinks=False)


def checkpoint_of(path: str) -> str:
    return f"{path}/{CHECKPOINT_NAME}"


def add_checkpoint(path: str, owner: int | None = None) -> None:
    """The folder kept from attempt to attempt, unless it exists. No process of the owner may be running."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(checkpoint_of(path), 0o700)
        if owner is not None:
            os.chown(checkpoint_of(path), owner, owner, follow_symlinks=False)


def add_script(path: str, script: str, owner: int | None = None) -> None:
    """Writes the text to an executable file. No process of the owner may be running; nothing is overwritten."""
    descriptor = os.open(f"{path}/{SCRIPT_NAME}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    with open(descriptor, "wb") as file:
        file.write(script.encode("utf-8", "surrogatepass"))
        if owner is not None:
            os.fchown(descriptor, owner, owner)


def remove_quickly(path: str, *, script: bool, checkpoint: bool = False) -> bool:
    """The common case, an empty folder, in a call or two. False: there is more to do, use `remove`."""
    try:
        if script:
            os.unlink(f"{path}/{SCRIPT_NAME}")
        if checkpoint:
            os.rmdir(checkpoint_of(path))
        os.rmdir(path)
    except FileNotFoundError:
        return not os.path.lexists(path)
    except OSError:
        return False
    return True


def remove(path: str) -> bool:
    """Removes the tree at `path`; True when nothing is left. May take long: not for the event loop."""
    parent, name = os.path.split(path)
    try:
        root = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return not os.path.lexists(path)
    try:
        return _remove_below(root, os.fsencode(name))
    finally:
        os.close(root)


def remove_all_below(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(path):
            remove(f"{path}/{name}")


def _remove_below(root: int, name: bytes) -> bool:
    """Moves deep folders up beside the first one, so that no more than two descriptors are ever open."""
    waiting = [name]
    hoisted = 0
    stuck = False
    while waiting:
        current = waiting[-1]
        folder = _open_folder(root, current)
        if folder is None:
            stuck |= not _is_removed(os.unlink, root, current)
            waiting.pop()
            continue
        try:
            for entry in os.listdir(folder):
                child = os.fsencode(entry)
                if _is_folder(folder, child) and not _is_removed(os.rmdir, folder, child):
                    target = b".rota-removing-%d-%s" % (hoisted, name)
                    hoisted += 1
                    if _hoist(folder, child, root, target):
                        waiting.insert(0, target)
                    else:
                        stuck = True
                else:
                    _is_removed(os.unlink, folder, child)
        finally:
            os.close(folder)
        waiting.pop()
        stuck |= not _is_removed(os.rmdir, root, current)
    return not stuck


def _open_folder(root: int, name: bytes) -> int | None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(2):
        try:
            descriptor = os.open(name, flags, dir_fd=root)
        except PermissionError:
            # A task may remove its own folder's read permission; as the owner we restore it.
            with contextlib.suppress(OSError):
                os.chmod(name, 0o700, dir_fd=root)
            continue
        except OSError:
            return None
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, 0o700)
        return descriptor
    return None


def _hoist(folder: int, child: bytes, root: int, target: bytes) -> bool:
    try:
        os.rename(child, target, src_dir_fd=folder, dst_dir_fd=root)
    except PermissionError:
        with contextlib.suppress(OSError):
            os.chmod(child, 0o700, dir_fd=folder)
            os.rename(child, target, src_dir_fd=folder, dst_dir_fd=root)
            return True
        return False
    except OSError:
        return False
    return True


def _is_folder(folder: int, name: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_removed(remove: Callable[..., None], folder: int, name: bytes) -> bool:
    try:
        remove(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
