"""Whether the code that a warm child has loaded is still the code on disk.

Checked at most once a second: the files of the functions' own modules, and of every other module imported from outside
Python's own folders. A deploy into those folders (`pip install`) is noticed for the functions' own modules only; `rota
node reload` covers the rest.
"""

from __future__ import annotations

import os
import sys

_CHECK_NS = 1_000_000_000

_Facts = tuple[int, int, int]  # modified, size, inode


class Sources:
    def __init__(self) -> None:
        self._installed = tuple(f"{prefix}/" for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, "/usr")))
        self._own = os.path.abspath(f"{os.path.dirname(__file__)}/../..") + "/"  # rota/
        self._known: dict[str, _Facts | None] = {}
        self._check_at_ns = 0

    def note(self, module: str = "") -> None:
        """Call it after an import: `module` is watched wherever it lies, other modules depending on their folder."""
        for name, loaded in list(sys.modules.items()):
            path = getattr(loaded, "__file__", None)
            if isinstance(path, str) and path not in self._known and (name == module or self._is_watched(path)):
                self._known[path] = _facts(path)

    def have_changed(self, now_ns: int) -> bool:
        if now_ns < self._check_at_ns:
            return False
        self._check_at_ns = now_ns + _CHECK_NS
        return any(_facts(path) != facts for path, facts in self._known.items())

    def _is_watched(self, path: str) -> bool:
        return os.path.isabs(path) and not path.startswith((*self._installed, self._own))


def _facts(path: str) -> _Facts | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None  # gone: the same as changed, unless it never existed
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
