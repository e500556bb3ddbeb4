"""A cap that runs while an attempt still waits for what it brings along: that is part of its execution."""

from __future__ import annotations

import asyncio
from typing import Any

from rota.execute.attempts.attempt import Held
from rota.model.attempt import Outcome


def cancel_at_cap(held: Held, bringing: asyncio.Task[Any], began_at: float) -> None:
    """Cancels `bringing` when the attempt's cap is reached. Looks again then: it may have been given more time."""
    loop = bringing.get_loop()
    if bringing.done() or held.stopping is not None or not held.run.cap_ms:
        return
    ends_at = began_at + held.run.cap_ms / 1000
    if loop.time() < ends_at:
        loop.call_at(ends_at, cancel_at_cap, held, bringing, began_at)
    else:
        held.stopping = Outcome.TIMEOUT
        bringing.cancel()
