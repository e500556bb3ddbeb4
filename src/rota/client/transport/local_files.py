"""Files of this machine: written so that they appear whole, and named pipes found before they are opened."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_FROM_A_SHELL = ("/dev/fd/", "/proc/", "/dev/stdin")  # as in <(command): these have a writer


@contextlib.contextmanager
def replaced_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A temporary file beside the target: renamed to it on success, removed on failure.

    `private`: only its owner may read it.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if not private:  # mkstemp made it 0600
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def is_named_pipe(path: str | Path) -> bool:
    """A named pipe must not be opened: without a writer, reading it blocks for ever."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode) and not str(path).startswith(_FROM_A_SHELL)
    except (OSError, ValueError):
        return False
