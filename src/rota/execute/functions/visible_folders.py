"""Which folders of the node sandboxed children see, read-only, to run Python functions.

Python itself, this package, the functions' folder and those in PYTHONPATH. A folder that holds homes or system files,
or that others may not read, is never visible, wherever the operator started the worker; the agent's data and a server's
first tokens are hidden where they lie inside a visible one. `rota worker` logs which folders it withholds.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

_TOKENS = "rota-tokens"  # where `rota serve` writes a new cluster's first tokens by default
_PRIVATE = ("/etc", "/home", "/proc", "/root", "/run", "/sys", "/dev", "/var")


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleFolders:
    folders: tuple[str, ...]  # each visible at its own path
    path: tuple[str, ...]  # those of them from which functions are imported
    withheld: tuple[str, ...]  # requested, but not made visible

    def mounts(self, data: Path) -> tuple[tuple[str, str, bool], ...]:
        """As `SandboxSpec` takes them. Makes the empty folder that hides the others."""
        own = str(data.resolve())
        tokens = [f"{folder}/{_TOKENS}" for folder in self.path]
        hidden = [entry for entry in (own, *tokens) if any(_is_below(entry, folder) for folder in self.folders)]
        empty = f"{own}/sandbox/empty"
        os.makedirs(empty, mode=0o755, exist_ok=True)
        return (
            *((folder, folder, False) for folder in self.folders if not _is_below(folder, "/usr")),
            *((empty, entry, False) for entry in hidden if os.path.isdir(entry)),
        )


def find_visible(directory: Path, python_path: str, home: str) -> VisibleFolders:
    package = str(Path(__file__).resolve().parents[3])
    asked = [str(directory.resolve())]
    asked += [
        os.path.realpath(entry) for entry in python_path.split(":") if os.path.isabs(entry) and os.path.isdir(entry)
    ]
    path = [folder for folder in dict.fromkeys(asked) if not _is_private(folder, home)]
    # The shallowest first: a mount hides what was mounted below it before.
    folders = sorted(dict.fromkeys((sys.prefix, sys.base_prefix, package, *path)), key=lambda entry: entry.count("/"))
    return VisibleFolders(
        folders=tuple(folders),
        path=tuple(path),
        withheld=tuple(folder for folder in dict.fromkeys(asked) if folder not in path),
    )


def _is_private(folder: str, home: str) -> bool:
    """Also a folder that only its owner may enter: children of an agent that is root have other user numbers."""
    if os.geteuid() == 0 and os.stat(folder).st_mode & 0o005 != 0o005:
        return True
    return any(_is_below(private, folder) for private in (home, *_PRIVATE))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
