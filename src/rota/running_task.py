"""The id of the task that runs in this process, set by a warm child or by the environment of a command or script.

Clients send it, so that tasks submitted by a running task join its graph.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

VARIABLE = "ROTA_TASK_ID"

here: ContextVar[int | None] = ContextVar("rota task id", default=None)  # of concurrent calls
_alone: int | None = None  # of sequential calls


def enter(task: int | None) -> None:
    global _alone
    _alone = task


def task_id() -> int | None:
    """The running task; None outside of a task."""
    found = here.get() or _alone
    if found is not None:
        return found
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
