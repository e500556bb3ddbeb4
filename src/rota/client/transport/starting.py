"""Says to other processes that a `rota up` is about to write the profile, and waits for it.

While it starts, `rota up` holds a lock on a file beside the profile; its end, however it ends, frees the lock. Without
such a lock nobody waits. Imports the standard library only: `rota up` announces itself before it loads anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

MOST_SECONDS = 60.0  # as long as `rota up` waits for its parts
_POLL_SECONDS = 0.05


def profile_path(environment: Mapping[str, str] = os.environ) -> Path:
    """`$ROTA_PROFILE`, else `rota/profile.toml` in the user's configuration folder."""
    if named := environment.get("ROTA_PROFILE"):
        return Path(named)
    folder = environment.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "rota" / "profile.toml"


class Start:
    """This process is a `rota up` that starts; until `over`, clients wait for its profile."""

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._made: Path | None = None  # the folder of the profile, if this start has made it

    def begin(self, profile: Path) -> None:
        marker = _marker(profile)
        # Where nothing can be written nobody waits: the profile can't be written either, and that error says why.
        with contextlib.suppress(OSError):
            if not marker.parent.is_dir():
                marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._made = marker.parent
            file = marker.open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another one starts for the same profile: clients wait for that one
                file.close()
                return
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self._file = file

    def over(self) -> None:
        """The profile is written, or will not be: nothing is left. Whoever has opened the file sees it unlocked."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            os.unlink(self._file.name)
        self._file.close()
        self._file = None
        if self._made is not None:
            with contextlib.suppress(OSError):  # the profile is in it
                self._made.rmdir()


OWN_START = Start()  # of this process: begun before anything is loaded, over when the profile is written


def await_start(
    profile: Path,
    say: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Returns when no `rota up` is about to write this profile, at once if there is none; at the latest in a minute."""
    try:
        file = _marker(profile).open()
    except OSError:
        return
    with file:
        until, said = clock() + MOST_SECONDS, False
        while _is_held(file) and clock() < until:
            if not said:
                said = True
                say(f"waiting for `rota up` (pid {file.read().strip() or 'unknown'}), which is starting")
            sleep(_POLL_SECONDS)


def _is_held(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _marker(profile: Path) -> Path:
    return profile.with_name(f".{profile.name}.starting")
