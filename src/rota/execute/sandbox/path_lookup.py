"""Maps a path inside a sandbox to one on the machine, before a program is started there.

A missing program must be found before the start: bubblewrap's own complaint would be taken for the task's output. The
files may be hostile: they came with the task, and a link among them could lead us to files that tasks must not learn
of. So links are read here, one by one, and followed only as the attempt itself would follow them; what can't be mapped
so is not checked. Nothing of the attempt runs yet, so nothing changes meanwhile.
"""

from __future__ import annotations

import os
import stat

from rota.execute.sandbox.bubblewrap import MADE, WORK, Host, Sandbox

_MOST_LINKS = 40  # the kernel's limit
_EMPTY = ("tmp", "run", "sys")  # folders that are made new and empty for each task


def outside(host: Host, sandbox: Sandbox, path: str, *, folder: str) -> str | None:
    """The path on the machine: "" if the attempt sees nothing there, None if it can't be told.

    In the attempt's own folder and in a root of its own the answer has no links in it.
    """
    pending = _parts(os.path.normpath(path))
    walked: list[str] = []
    links = 0
    while pending:
        name = pending.pop()
        if name == "..":
            walked = walked[:-1]
            continue
        inside = "/" + "/".join([*walked, name])
        rest = "/".join(["", *reversed(pending)])
        real_path = _own(sandbox, inside, folder)
        if real_path is None or _is_mounted(sandbox, inside + rest):
            return _elsewhere(host, sandbox, os.path.normpath(inside + rest), moved=links > 0)
        try:
            kind = os.lstat(real_path).st_mode
        except FileNotFoundError:
            return real_path + rest
        except (OSError, ValueError):
            return None
        if not stat.S_ISLNK(kind):
            if pending and not stat.S_ISDIR(kind):
                return real_path + rest  # nothing is below a file: the caller will see that
            walked.append(name)
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        try:
            target = os.readlink(real_path)
        except OSError:
            return None
        walked = [] if target.startswith("/") else walked
        pending += _parts(target)
    return _own(sandbox, "/" + "/".join(walked), folder)


def _parts(path: str) -> list[str]:
    """A path's names, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _own(sandbox: Sandbox, inside: str, folder: str) -> str | None:
    """The real path if it lies in the attempt's folder or in its own root; None for all others."""
    if _is_below(inside, WORK):
        return folder + inside[len(WORK) :]
    if not sandbox.root or _is_mounted(sandbox, inside):
        return None
    if inside != "/" and _parts(inside)[-1] in MADE:
        return None
    return sandbox.root + inside


def _elsewhere(host: Host, sandbox: Sandbox, path: str, *, moved: bool) -> str | None:
    """The path in a mount or in the machine's own system, whose links lead where ours do."""
    if _is_below(path, WORK):
        return None  # out of its folder and in again: left to the kernel
    for mount in reversed(sandbox.mounts):
        if _is_below(path, mount.target):
            source = mount.source + path[len(mount.target) :]
            real = os.path.realpath(source)
            # A tenant who may write there could probe the machine's files through us.
            return source if _is_below(real, mount.source) else None
    if sandbox.root:
        return "" if path.split("/")[1] in _EMPTY else None
    if any(_is_below(path, folder) for folder in (*host.folders, *(link for link, _ in host.links), *host.files)):
        return path
    # A link of the task's may lead to what is made new for it, such as /proc.
    return None if moved else ""


def _is_mounted(sandbox: Sandbox, path: str) -> bool:
    return any(_is_below(path, mount.target) for mount in sandbox.mounts)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
