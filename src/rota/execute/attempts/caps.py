"""A cap that runs while an attempt still waits for what it brings along: that is part of its execution."""

from __future__ import annotations

import asyncio
from typing import Any

from rota.execute.attempts.attempt import Attempt
from rota.model.attempt import Outcome


def cancel_at_cap(attempt: Attempt, bringing: asyncio.Task[Any], began_at: float) -> None:
    """Cancels `bringing` when the attempt's cap is reached. Looks again then: it may have been given more time."""
    loop = bringing.get_loop()
    if bringing.done() or attempt.stopping is not None or not attempt.run.cap_ms:
        return
    ends_at = began_at + attempt.run.cap_ms / 1000
    if loop.time() < ends_at:
        loop.call_at(ends_at, cancel_at_cap, attempt, bringing, began_at)
    else:
        attempt.stopping = Outcome.TIMEOUT
        bringing.cancel()
