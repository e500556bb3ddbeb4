"""System calls for mount namespaces, which Python lacks. As root only.

Only for programs of one thread: a mount namespace belongs to a thread, and so does its working directory.
"""

from __future__ import annotations

import ctypes
import os

NOSUID, NODEV = 0x2, 0x4
BIND, REC, SLAVE = 0x1000, 0x4000, 0x80000
_CLONE_NEWNS = 0x00020000
_MNT_DETACH = 0x2

_libc = ctypes.CDLL(None, use_errno=True)


def leave() -> None:
    """Enters a copy of the current namespace. Later mounts of others appear in it; ours do not appear outside."""
    _checked(_libc.unshare(_CLONE_NEWNS), "unshare")
    mount(None, "/", None, REC | SLAVE)


def current() -> int:
    """A descriptor of the current namespace, to come back to."""
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def enter(view: int) -> None:
    """The working directory is its top afterwards."""
    _checked(_libc.setns(view, _CLONE_NEWNS), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _checked(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {source or target}")


def detach(target: str) -> None:
    """Unmounts with all mounts below; open files stay usable."""
    _checked(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"umount {target}")


def _checked(answer: int, what: str) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
