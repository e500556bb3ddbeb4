"""The test switch for planted bugs: the simulator breaks Rota on purpose, one known way at a time, to prove that its
checks would notice.

Empty in production and set only by `rota.simulate` and its tests. A place that can be broken asks in one cheap line:

    if planted.ACTIVE and planted.has("late-result-accepted"): ...

Imports nothing, so that any layer may ask, the pure core included.
"""

from __future__ import annotations

ACTIVE: frozenset[str] = frozenset()


def has(name: str) -> bool:
    return name in ACTIVE


def plant(*names: str) -> None:
    """Breaks this process in these ways, and in no others. Without names: whole again."""
    global ACTIVE
    ACTIVE = frozenset(names)
