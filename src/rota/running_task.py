"""The task that runs in this process, set by a warm child or by the environment of a command or script.

Clients send its id, so that tasks submitted by a running task join its graph. A task that may submit has an address and
a key, too: a child tells them here, call by call, because concurrent calls share one environment.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

VARIABLE = "ROTA_TASK_ID"


class RunningTask:
    """A call of a function. `server` and `key`: for what it submits; empty: it may not."""

    __slots__ = ("id", "key", "server")

    def __init__(self, task: int, server: str = "", key: str = "") -> None:
        self.id = task
        self.server = server
        self.key = key


here: ContextVar[RunningTask | None] = ContextVar("rota task id", default=None)  # of concurrent calls
_alone: RunningTask | None = None  # of sequential calls


def enter(task: RunningTask | None) -> None:
    global _alone
    _alone = task


def task_id() -> int | None:
    """The running task; None outside of a task."""
    found = here.get() or _alone
    if found is not None:
        return found.id
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def access() -> tuple[str, str] | None:
    """The server and the key of the running call; None if it may not submit, and outside of a call."""
    found = here.get() or _alone
    return (found.server, found.key) if found is not None and found.key else None
