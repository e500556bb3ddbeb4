"""Folders of a node that its operator has named for tasks: `team:/srv/team:ro:tenant=acme,beta`.

A task asks for a mount by name and sees it at the operator's path; nothing else of the node's files is visible. Every
tenant's tasks may ask for it, unless the operator names tenants. Admission refuses the others, leaders don't place them
here, and the agent checks once more: it alone knows its options for certain.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rota.model.isolation import NODE_NAME

_TAKEN = ("/proc", "/dev", "/tmp", "/task", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/run")


@dataclass(frozen=True, slots=True)
class NamedMount:
    name: str
    source: str
    target: str
    writable: bool = False
    tenants: tuple[str, ...] = ()  # whose tasks may see it; empty: everybody's


def parse_mount(text: str) -> NamedMount:
    """`NAME:FOLDER[:ro|rw][:tenant=NAME,…]`. The folder is visible at its own path. ValueError says what is wrong."""
    name, _, rest = text.partition(":")
    folder, *words = rest.split(":")
    if not NODE_NAME.match(name) or not folder:
        raise ValueError(f"{text!r} is not a mount; write team:/srv/team:ro")
    tenants: tuple[str, ...] = ()
    if words and words[-1].startswith("tenant="):
        tenants = tuple(dict.fromkeys(words.pop().removeprefix("tenant=").split(",")))
        wrong = [name for name in tenants if not NODE_NAME.match(name)]
        if wrong:
            raise ValueError(f"{text!r}: {wrong[0]!r} is not a tenant's name; write tenant=acme,beta")
    mode = ":".join(words)
    if mode not in ("", "ro", "rw"):
        raise ValueError(f"{text!r}: {mode!r} is neither ro nor rw, nor tenant=NAME,…")
    path = os.path.normpath(folder)
    if not path.startswith("/") or path == "/" or any(path == name or path.startswith(name + "/") for name in _TAKEN):
        raise ValueError(f"{text!r}: {folder!r} can't be shown; name an absolute folder, not in {', '.join(_TAKEN)}")
    if not os.path.isdir(path):
        raise ValueError(f"{text!r}: there is no folder {path} on this node")
    return NamedMount(name, os.path.realpath(path), path, mode == "rw", tenants)


def named(mounts: Mapping[str, NamedMount], names: Sequence[str], owner: str) -> list[NamedMount]:
    """The mounts that a task of the tenant `owner` asked for. ValueError: one is not here, or not for this tenant."""
    for name in names:
        if name not in mounts:
            raise ValueError(f"this node has no mount {name}")
        if mounts[name].tenants and owner not in mounts[name].tenants:
            raise ValueError(f"the mount {name} of this node is for other tenants")
    return [mounts[name] for name in names]


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
