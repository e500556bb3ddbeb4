"""Which task runs here: said by whoever runs a function, and by the environment of a command or script.

Clients send it along, so that what a running task submits joins its graph. Standard library only: every warm child
loads it.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

VARIABLE = "ROTA_TASK_ID"

here: ContextVar[int | None] = ContextVar("rota task id", default=None)  # where calls share a process
_alone: int | None = None  # where one call runs at a time


def enter(task: int | None) -> None:
    global _alone
    _alone = task


def task_id() -> int | None:
    """The task that is running in this process; None outside of one."""
    found = here.get() or _alone
    if found is not None:
        return found
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
