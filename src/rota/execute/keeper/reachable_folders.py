"""Makes private folders reachable for unprivileged users, if the keeper runs as root.

An attempt has a user number of its own, and so does its bubblewrap; neither could follow a path through a folder that
only root may enter, such as root's home. The keeper therefore enters a mount namespace of its own and binds there,
under one open folder, the folders that sandboxes are made from. They are visible only to the keeper and its children,
and end with them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from rota.execute.linux import mount_calls

_PARENTS = ("/run", "/var/run", "/tmp")


class NotReachable(RuntimeError):
    """This process may not make a mount namespace; the message has the kernel's answer."""


def prepare(name: str, folders: list[str]) -> tuple[tuple[str, str], ...]:
    """Each folder that others can't reach, with a path where they can, longest first.

    Nothing to do unless we are root. Folders that everybody can reach stay where they are: each mount costs every
    sandbox time.
    """
    if os.geteuid() != 0:
        return ()
    private = [folder for folder in dict.fromkeys(folders) if not _is_open(folder)]
    try:
        mount_calls.leave()
        root = _folder(name)
        mount_calls.mount("tmpfs", root, "tmpfs", mount_calls.NOSUID | mount_calls.NODEV, "mode=0711,size=1m")
        reachable_as = []
        for number, folder in enumerate(private):
            path = f"{root}/{number}"
            os.mkdir(path, 0o711)
            mount_calls.mount(folder, path, None, mount_calls.BIND | mount_calls.REC)
            reachable_as.append((folder, path))
    except OSError as error:
        raise NotReachable(f"{error.filename or 'a mount'}: {error.strerror}") from error
    return tuple(sorted(reachable_as, key=lambda pair: -len(pair[0])))


def _is_open(folder: str) -> bool:
    """Whether an unprivileged user can reach it; links are not followed."""
    for path in (folder, *(str(parent) for parent in Path(folder).parents)):
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode) or not mode & stat.S_IXOTH:
            return False
    return True


def clear(name: str) -> None:
    """Removes the empty folder that is left outside: at the end of the keeper, or by the next one."""
    if os.geteuid() == 0:
        for path in _PARENTS:
            with contextlib.suppress(OSError):  # outside the namespace nothing is mounted there
                mount_calls.detach(f"{path}/{name}")
            with contextlib.suppress(OSError):
                os.rmdir(f"{path}/{name}")


def _folder(name: str) -> str:
    for path in _PARENTS:
        with contextlib.suppress(OSError):
            os.makedirs(f"{path}/{name}", mode=0o711, exist_ok=True)
            return f"{path}/{name}"
    raise OSError(2, "no folder can be made", _PARENTS[0])
