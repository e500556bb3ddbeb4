"""The set-up of long-running processes: readiness, no core dumps, a message about options."""

from __future__ import annotations

import os
import resource
import sys

CRASHED = 125  # the exit code after an error that nobody expected


def announce_ready() -> None:
    """Tells the parent process by one byte on the descriptor in ROTA_READY_FD."""
    text = os.environ.pop("ROTA_READY_FD", None)
    if text is not None:
        os.write(int(text), b"R")
        os.close(int(text))


def leave_no_dump() -> None:
    """Forbids core dumps, because memory holds the values of secrets."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def say(text: str, code: int) -> int:
    sys.stderr.write(f"rota: {text}\n")
    return code
