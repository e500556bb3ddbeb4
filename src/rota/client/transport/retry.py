"""Whether, and after how long, a failed request is sent again. Pure: time and randomness are arguments.

A request is repeated only when that cannot do its work twice: it never reached a server, it carries an idempotency key,
or it only reads. Limits (429) and refusals are never repeated: the caller decides.
"""

from __future__ import annotations

from typing import Any

from rota.client.calls.call import Call
from rota.client.errors import Unreachable

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0


def pause_before_repeating(
    call: Call[Any],
    error: Unreachable,
    *,
    tries: int,
    elapsed_seconds: float,
    retry_seconds: float,
    chance: float,
) -> float | None:
    """Seconds to wait, or None to give up. `chance`, in [0, 1), spreads clients that lost the same server."""
    if error.sent and not call.repeatable:
        return None
    pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(tries, 10)) * (0.5 + chance / 2)
    if error.retry_after is not None:
        pause = max(pause, error.retry_after)
    return pause if elapsed_seconds + pause <= retry_seconds else None
