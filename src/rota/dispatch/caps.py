"""Caps that were changed while the task runs, told to its node: at once when somebody says so, and again by the slow
poll for whoever missed it (a new leader, an agent that came back).
"""

from __future__ import annotations

from rota import wire
from rota.decide.messages import CapChanged
from rota.dispatch.pool import PoolState
from rota.store.caps import load_changed_caps
from rota.store.database import AnyConnection

CAPABILITY = "caps"  # agents without it were built before caps could change, and would not understand the frame


async def follow_caps(pool: PoolState, connection: AnyConnection) -> None:
    for task, attempt, cap_ms in await load_changed_caps(connection, pool.id):
        tell_cap(pool, task, attempt, cap_ms)


def tell_cap(pool: PoolState, task: int, attempt: int, cap_ms: int) -> None:
    """Once per connection and cap."""
    known = pool.attempts.get(task)
    if known is None or known.attempt != attempt or known.reported:
        return
    pool.core.apply(CapChanged(task, cap_ms), pool.now_us())
    session = pool.sessions.get(known.node)
    if session is None or session.boot != known.boot or CAPABILITY not in session.capabilities:
        return
    if known.cap_told != (session.number, cap_ms):
        known.cap_told = (session.number, cap_ms)
        session.send(wire.Caps(pool.lease.epoch, [(task, attempt, cap_ms)]))
