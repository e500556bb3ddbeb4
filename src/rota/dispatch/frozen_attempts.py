"""Which attempts of a pool stand still, for people.

A node without a leader freezes its attempts at their fence (`execute/attempts/frozen.py`). The leader needs no message
to know it: the node has been silent for longer than the fence. Nothing here decides; `watch.py` gives attempts up.
"""

from __future__ import annotations

from collections import Counter

from rota.decide import wording
from rota.decide.explain import Explanation
from rota.decide.reason import Reason
from rota.dispatch.pool import Authorised, PoolState
from rota.dispatch.watch import silent_since


def is_frozen(pool: PoolState, attempt: Authorised) -> bool:
    """Whether it stands still, if it is alive at all."""
    if attempt.reported or attempt.node in pool.sessions:
        return False
    fence_seconds = pool.settings.timings.fence_ms(attempt.grace_ms) / 1000
    return pool.clock() - silent_since(pool, attempt) >= fence_seconds


def frozen_by_node(pool: PoolState) -> Counter[int]:
    """How many attempts stand still: by the clock, or as their connected node reports."""
    found = Counter(attempt.node for attempt in pool.attempts.values() if is_frozen(pool, attempt))
    found.update({session.node: session.frozen for session in pool.sessions.values() if session.frozen})
    return found


def explain_frozen(pool: PoolState, task: int) -> Explanation | None:
    """None: it does not stand still."""
    attempt = pool.attempts.get(task)
    if attempt is None or not is_frozen(pool, attempt):
        return None
    silent_us = int((pool.clock() - silent_since(pool, attempt)) * 1e6)
    left_us = max(0, attempt.grace_ms * 1000 - silent_us)
    sentence = (
        f"its node has been silent for {wording.span(silent_us)}, so it is frozen there; "
        f"it goes on if the node is back within {wording.span(left_us)}, else it is tried again"
    )
    return Explanation(reason=Reason.FROZEN, sentence=sentence, basis="running", likely_node=attempt.node)
