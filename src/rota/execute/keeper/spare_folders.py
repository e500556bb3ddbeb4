"""Empty attempt folders, kept for the next attempt instead of being removed and made again.

Making and removing a folder goes through the file system's journal and costs more than everything else the keeper does
for a short task; giving one another name costs a tenth of it. A folder comes back only when it is just as it was made:
nothing in it, no other rights, no lists of rights. Those of confined work, which has user numbers of its own, are kept
apart and given from one number to the next. Standard library only: the keeper uses it.
"""

from __future__ import annotations

import contextlib
import os
import stat

from rota.execute.linux import work_folder

_MOST = 64  # what lies about idle
_AS_MADE = stat.S_IFDIR | 0o700


def folder_of(work: str) -> str:
    """Beside the attempts' folders, not among them: what lies there is nobody's."""
    return f"{work}-spares"


class SpareFolders:
    def __init__(self, folder: str) -> None:
        self._folder = folder  # on the same file system as the attempts' own
        self._self = os.geteuid()
        self._count = 0
        self._plain: list[str] = []
        self._owned: list[str] = []

    def provide(self, path: str, owner: int | None = None) -> None:
        """A folder at `path`, with an empty folder for checkpoints in it. Nothing of the owner's may be running."""
        paths = self._plain if owner is None else self._owned
        while paths:
            with contextlib.suppress(OSError):  # somebody has tidied up: a new one will do
                spare = paths.pop()
                if owner is not None:
                    os.chown(work_folder.checkpoint_of(spare), owner, owner, follow_symlinks=False)
                    os.chown(spare, owner, owner, follow_symlinks=False)
                os.rename(spare, path)
                return
        work_folder.create(path, owner)
        work_folder.add_checkpoint(path, owner)

    def take_back(self, path: str, *, script: bool, owner: int | None = None) -> bool:
        """True: the folder is no longer at `path`. False: there is something in it, or it is not as it was.

        Nothing of the owner's may be running any more.
        """
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
            return False  # no room to keep it: it is removed as any other
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
            return False  # the task has removed it, or its right to be read

    def _is_plain(self, path: str, owner: int | None) -> bool:
        facts = os.lstat(path)
        if facts.st_mode != _AS_MADE or facts.st_uid != (self._self if owner is None else owner):
            return False
        # A stranger's may have attributes; lists of rights are among them, and would hold for whoever comes next.
        return owner is None or not os.listxattr(path, follow_symlinks=False)
