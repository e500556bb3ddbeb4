"""The view from which sandboxes are built: of the machine's mounts only those that one could ever be shown.

bubblewrap copies every mount it finds and reads the list of them all for each folder it shows; on a machine with many,
most of what a short sandbox costs is spent on file systems it never sees: control groups, other people's containers.
So the keeper makes one view without them, once, and confined work is born there. It keeps nothing out: that is what the
walls are for. Standard library only: the keeper uses it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path

from rota.execute.linux import mount_calls

_ALWAYS = ("/", "/proc", "/dev")  # bubblewrap's own needs
_NO_DEVICES = ("devpts", "mqueue", "hugetlbfs", "tmpfs")  # below /dev, but without files of devices
_ESCAPED = re.compile(r"\\([0-7]{3})")


def make(needed: Iterable[str]) -> int | None:
    """A descriptor of the view; None: there can't be one here, and ours must do. `needed`: what sandboxes show."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # In a process of its own: one that could not come back from a view would stay there for good.
        child = os.fork()
        if child == 0:
            try:
                view = _made(needed)
                socket.send_fds(theirs, [b"."], [view])
            finally:
                os._exit(0)
        theirs.close()
        _, views, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(child, 0)
    for view in views:
        os.set_inheritable(view, False)
        return view
    return None


def _made(needed: Iterable[str]) -> int:
    home = mount_calls.current()
    real = {spelling for path in needed for spelling in (path, os.path.realpath(path))}
    mount_calls.leave()
    listing = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    for mount_point in superfluous(listing, sorted(real)):
        with contextlib.suppress(OSError):  # in some containers they are locked; then it only takes longer
            mount_calls.detach(mount_point)
    view = mount_calls.current()
    mount_calls.enter(home)  # whoever is born must be able to enter it
    mount_calls.enter(view)
    return view


def superfluous(mountinfo: str, needed: Iterable[str]) -> list[str]:
    """Mounts that nothing needed lies on, on or below, last mounted first. Pure."""
    wanted = [*_ALWAYS, *needed]
    found: list[str] = []
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        mount_point = _ESCAPED.sub(lambda digits: chr(int(digits[1], 8)), head.split()[4])
        if mount_point.startswith("/dev/") and tail.split()[0] not in _NO_DEVICES:
            continue
        if not any(
            _is_within(path, mount_point) or (path not in _ALWAYS and _is_within(mount_point, path)) for path in wanted
        ):
            found.append(mount_point)
    return found[::-1]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
