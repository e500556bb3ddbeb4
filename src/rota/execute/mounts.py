"""Folders of a node that its operator has named, so that tasks can see them: `team:/srv/team:ro`.

A task asks for a mount by name and sees it at the operator's path; nothing else of the node's files is ever shown.
Every tenant's tasks may ask for it: what is only one tenant's belongs on nodes of a pool that only that tenant uses.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from rota.model.isolation import NODE_NAME

_TAKEN = ("/proc", "/dev", "/tmp", "/task", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/run")


@dataclass(frozen=True, slots=True)
class NamedMount:
    name: str
    source: str
    target: str
    writable: bool = False


def parse_mount(text: str) -> NamedMount:
    """`NAME:FOLDER[:ro|rw]`. The folder is seen at its own path. ValueError says what is wrong."""
    name, _, rest = text.partition(":")
    folder, _, mode = rest.partition(":")
    if not NODE_NAME.match(name) or not folder:
        raise ValueError(f"{text!r} is not a mount; write team:/srv/team:ro")
    if mode not in ("", "ro", "rw"):
        raise ValueError(f"{text!r}: {mode!r} is neither ro nor rw")
    path = os.path.normpath(folder)
    if not path.startswith("/") or path == "/" or any(path == one or path.startswith(one + "/") for one in _TAKEN):
        raise ValueError(f"{text!r}: {folder!r} is not an absolute folder outside the system's own")
    if not os.path.isdir(path):
        raise ValueError(f"{text!r}: there is no folder {path} on this node")
    return NamedMount(name, os.path.realpath(path), path, mode == "rw")


def parse_rootfs(text: str) -> tuple[str, str]:
    """`NAME:FOLDER`: an unpacked system, for tasks with the image rootfs:NAME. ValueError says what is wrong."""
    name, _, folder = text.partition(":")
    if not NODE_NAME.match(name) or not folder:
        raise ValueError(f"{text!r} is not a root; write debian:/srv/roots/debian")
    path = os.path.realpath(folder)
    if not folder.startswith("/") or path == "/" or not os.path.isdir(path):
        raise ValueError(f"{text!r}: there is no folder {folder} on this node with a system of its own")
    if not any(os.path.isdir(f"{path}/{part}") for part in ("bin", "usr")):
        raise ValueError(f"{text!r}: {folder} has neither bin nor usr; unpack a root file system there")
    return name, path
