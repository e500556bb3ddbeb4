"""Empty attempt folders, kept for the next attempt instead of being removed and made again.

Making and removing a folder goes through the file system's journal and costs more than everything else the keeper does
for a short task; giving one another name costs a tenth of it. Only for plain work, which has no user number of its own:
a folder comes back when it is just as it was made. Standard library only: the keeper uses it.
"""

from __future__ import annotations

import contextlib
import os
import stat

from rota.execute import workfolder

_MOST = 64  # what lies about idle
_AS_MADE = stat.S_IFDIR | 0o700


def folder_of(work: str) -> str:
    """Beside the attempts' folders, not among them: what lies there is nobody's."""
    return f"{work}-spares"


class Spares:
    def __init__(self, folder: str) -> None:
        self._folder = folder  # on the same file system as the attempts' own
        self._owner = os.geteuid()
        self._count = 0
        self._paths: list[str] = []

    def provide(self, path: str) -> None:
        """A folder at `path`, with an empty folder for checkpoints in it."""
        while self._paths:
            with contextlib.suppress(OSError):  # somebody has tidied up: a new one will do
                os.rename(self._paths.pop(), path)
                return
        workfolder.create(path)
        workfolder.add_checkpoint(path)

    def take_back(self, path: str, *, script: bool) -> bool:
        """True: the folder is no longer at `path`. False: there is something in it, or it is not as it was."""
        if len(self._paths) >= _MOST:
            return False
        if script:
            with contextlib.suppress(OSError):
                os.unlink(f"{path}/{workfolder.SCRIPT_NAME}")
        if not self._is_as_made(path):
            return False
        self._count += 1
        spare = f"{self._folder}/{self._count}"
        try:
            os.rename(path, spare)
        except OSError:
            return False  # no room to keep it: it is removed as any other
        self._paths.append(spare)
        return True

    def _is_as_made(self, path: str) -> bool:
        inner = workfolder.checkpoint_of(path)
        try:
            return (
                self._is_plain(path)
                and self._is_plain(inner)
                and os.listdir(path) == [workfolder.CHECKPOINT_NAME]
                and not os.listdir(inner)
            )
        except OSError:
            return False  # the task has removed it, or its right to be read

    def _is_plain(self, path: str) -> bool:
        facts = os.lstat(path)
        return facts.st_mode == _AS_MADE and facts.st_uid == self._owner
