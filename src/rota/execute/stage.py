"""Private folders made reachable for users without rights: for a keeper that runs as root.

An attempt runs under a number of its own, and so does the program that builds its walls; neither could follow a path
through a folder that only root may enter, such as root's home. The keeper therefore takes a view of the file system of
its own (a mount namespace) and binds there, under one open folder, what sandboxes are made from. Nothing of it is seen
outside the keeper and its children, and it ends with them. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV = 0x2, 0x4
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_MNT_DETACH = 0x2
_PLACES = ("/run", "/var/run", "/tmp")


class NoStage(RuntimeError):
    """This process may not make a view of its own; the text says what the kernel answered."""


def prepare(name: str, folders: list[str]) -> tuple[tuple[str, str], ...]:
    """Each folder with the place where it can be reached as well, longest first. Nothing to do unless we are root."""
    if os.geteuid() != 0:
        return ()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        _checked(libc.unshare(_CLONE_NEWNS), "unshare")
        # What others mount later is still seen here; what we mount is not seen there.
        _mount(libc, None, "/", None, _MS_REC | _MS_SLAVE)
        root = _folder(name)
        _mount(libc, "tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0711,size=1m")
        staged = []
        for number, folder in enumerate(dict.fromkeys(folders)):
            place = f"{root}/{number}"
            os.mkdir(place, 0o711)
            _mount(libc, folder, place, None, _MS_BIND | _MS_REC)
            staged.append((folder, place))
    except OSError as error:
        raise NoStage(f"{error.filename or 'a mount'}: {error.strerror}") from error
    return tuple(sorted(staged, key=lambda one: -len(one[0])))


def clear(name: str) -> None:
    """The empty folder that is left outside: by the one who prepared it, at its end, or by who comes after it."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for place in _PLACES:
            libc.umount2(os.fsencode(f"{place}/{name}"), _MNT_DETACH)
            with contextlib.suppress(OSError):
                os.rmdir(f"{place}/{name}")


def _folder(name: str) -> str:
    for place in _PLACES:
        with contextlib.suppress(OSError):
            os.makedirs(f"{place}/{name}", mode=0o711, exist_ok=True)
            return f"{place}/{name}"
    raise OSError(2, "no folder for it can be made", _PLACES[0])


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _checked(libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {source or target}")


def _checked(answer: int, what: str) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
