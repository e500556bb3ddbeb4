"""Empty attempt folders, kept for the next attempt instead of being removed and made again.

Making and removing a folder goes through the file system's journal and costs more than everything else the keeper does
for a short task; a rename costs a tenth of it. A folder is kept only if it is just as it was made: empty, with the same
mode and no access-control lists. Folders of sandboxed work, which has user numbers of its own, are kept separately and
passed from one number to the next.
"""

from __future__ import annotations

import contextlib
import os
import stat

from rota.execute.linux import work_folder

_MOST = 64  # spare folders of each sort
_AS_MADE = stat.S_IFDIR | 0o700


def folder_of(work: str) -> str:
    """Beside the attempts' folders, not among them: spare folders belong to no attempt."""
    return f"{work}-spare"


class SpareFolders:
    def __init__(self, folder: str) -> None:
        self._folder = folder  # on the same file system as the attempts' folders
        self._self = os.geteuid()
        self._count = 0
        self._plain: list[str] = []
        self._owned: list[str] = []

    def provide(self, path: str, owner: int | None = None) -> None:
        """Makes `path` a folder with an empty checkpoint folder in it. No process of the owner may be running."""
        paths = self._plain if owner is None else self._owned
        while paths:
            with contextlib.suppress(OSError):  # somebody removed it: make a new one
                spare = paths.pop()
                if owner is not None:
                    os.chown(work_folder.checkpoint_of(spare), owner, owner, follow_symlinks=False)
                    os.chown(spare, owner, owner, follow_symlinks=False)
                os.rename(spare, path)
                return
        work_folder.create(path, owner)
        work_folder.add_checkpoint(path, owner)

    def take_back(self, path: str, *, script: bool, owner: int | None = None) -> bool:
        """True: it is no longer at `path`. False: it is not as it was made. No process of the owner may be running."""
        paths = self._plain if owner is None else self._owned
        if len(paths) >= _MOST:
            return False
        if script:
            with contextlib.suppress(OSError):
                os.unlink(f"{path}/{work_folder.SCRIPT_NAME}")
        if not self._is_as_made(path, owner):
            return False
        self._count += 1
        spare = f"{self._folder}/{self._count}"
        try:
            os.rename(path, spare)
        except OSError:
            return False  # no space to keep it: it is removed like any other
        paths.append(spare)
        return True

    def _is_as_made(self, path: str, owner: int | None) -> bool:
        inner = work_folder.checkpoint_of(path)
        try:
            return (
                self._is_plain(path, owner)
                and self._is_plain(inner, owner)
                and os.listdir(path) == [work_folder.CHECKPOINT_NAME]
                and not os.listdir(inner)
            )
        except OSError:
            return False  # the task has removed it or made it unreadable

    def _is_plain(self, path: str, owner: int | None) -> bool:
        facts = os.lstat(path)
        if facts.st_mode != _AS_MADE or facts.st_uid != (self._self if owner is None else owner):
            return False
        # Another user's may have attributes; access-control lists are among them and would hold for the next attempt.
        return owner is None or not os.listxattr(path, follow_symlinks=False)
