"""The mount view from which sandboxes are built: only those of the machine's mounts that a sandbox may need.

bubblewrap copies every mount it finds and reads the list of all of them for each folder it binds; on a machine with
many, most of the cost of a short sandbox goes into file systems it never sees: control groups, other containers. So the
keeper makes one mount namespace without them, once, and spawns sandboxed processes in it. This is for speed: isolation
is the sandbox's task.
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
_NO_DEVICES = ("devpts", "mqueue", "hugetlbfs", "tmpfs")  # below /dev, but without device files
_ESCAPED = re.compile(r"\\([0-7]{3})")


def make(needed: Iterable[str]) -> int | None:
    """A descriptor of the view; None: none can be made here, and ours is used. `needed`: paths that sandboxes bind."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # In a separate process: one that could not return from the namespace would stay in it for good.
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
        with contextlib.suppress(OSError):  # locked in some containers; then a sandbox only takes longer
            mount_calls.detach(mount_point)
    view = mount_calls.current()
    mount_calls.enter(home)  # a new process must be able to enter it
    mount_calls.enter(view)
    return view


def superfluous(mountinfo: str, needed: Iterable[str]) -> list[str]:
    """Mounts that no needed path lies on or below or above, last mounted first. Pure."""
    kept = [*_ALWAYS, *needed]
    unneeded: list[str] = []
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        mount_point = _ESCAPED.sub(lambda digits: chr(int(digits[1], 8)), head.split()[4])
        if mount_point.startswith("/dev/") and tail.split()[0] not in _NO_DEVICES:
            continue
        if not any(
            _is_within(path, mount_point) or (path not in _ALWAYS and _is_within(mount_point, path)) for path in kept
        ):
            unneeded.append(mount_point)
    return unneeded[::-1]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
