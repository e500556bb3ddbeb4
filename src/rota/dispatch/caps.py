"""Caps that were changed while the task runs. The node is told at once on a hint, and again by the slow poll if the
hint was lost, the leader is new or the agent came back.
"""

from __future__ import annotations

from rota import wire
from rota.decide.messages import CapChanged
from rota.dispatch.pool import PoolState
from rota.store.caps import load_changed_caps
from rota.store.database import AnyConnection

CAPABILITY = "caps"  # agents without it don't understand the frame


async def follow_caps(pool: PoolState, connection: AnyConnection) -> None:
    for task, attempt, cap_ms in await load_changed_caps(connection, pool.id):
        send_cap(pool, task, attempt, cap_ms)


def send_cap(pool: PoolState, task: int, number: int, cap_ms: int) -> None:
    """Once for each connection and cap."""
    attempt = pool.attempts.get(task)
    if attempt is None or attempt.attempt != number or attempt.reported:
        return
    pool.core.apply(CapChanged(task, cap_ms), pool.now_us())
    session = pool.sessions.get(attempt.node)
    if session is None or session.boot != attempt.boot or CAPABILITY not in session.capabilities:
        return
    if attempt.cap_sent != (session.number, cap_ms):
        attempt.cap_sent = (session.number, cap_ms)
        session.send(wire.Caps(pool.lease.epoch, [(task, number, cap_ms)]))
