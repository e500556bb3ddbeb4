"""After a pause of a tenant, a pool or a node: takes attempts back that were sent to nodes and have not begun there.

The start statement keeps a pause for everything that is not authorised yet. What was authorised before may still be on
its way to a node, or wait there behind other work. The answer to the operator waits until each of these nodes has
confirmed that nothing of it begins any more. Only the cycle sends recalls, between two batches of starts: so a node
gets a recall after every start that it is about.
"""

from __future__ import annotations

from rota import wire
from rota.dispatch.pool import Key, PoolState, RecallRequest
from rota.dispatch.session import Session

CONFIRM_SECONDS = 1.0  # an operator waits no longer for the nodes
LOOK_SECONDS = 0.01


def request_recall(pool: PoolState, *, tenant: int | None = None, node: int | None = None) -> RecallRequest:
    """The cycle sends it before its next batch."""
    request = RecallRequest(tenant, node)
    pool.recall_requests.append(request)
    pool.wakes.cycle.set()
    return request


async def recall_paused(pool: PoolState, *, tenant: int | None = None, node: int | None = None) -> int | None:
    """Takes back what has not begun, and waits for the nodes. Returns how many attempts may still begin.

    None: this leader's lease is over, so it can't tell.
    """
    request = request_recall(pool, tenant=tenant, node=node)
    deadline = pool.clock() + CONFIRM_SECONDS
    while (left := unconfirmed(pool, request)) and pool.lease.valid() and pool.clock() < deadline:
        await pool.sleep(LOOK_SECONDS)
    return left if pool.lease.valid() else None


def unconfirmed(pool: PoolState, request: RecallRequest) -> int:
    """How many attempts of the request may still begin, as far as this leader knows."""
    if not request.number:
        return sum(request.affects(one.tenant, one.node) for one in pool.core.state.running.values())
    return sum(
        pool.is_unreported(key)
        for session, keys in request.asked
        if session is None or session.recalled < request.number
        for key in keys
    )


def send_recalls(pool: PoolState) -> None:
    """Called by the cycle while no start is under way."""
    requests, pool.recall_requests = pool.recall_requests, []
    for request in requests:
        nodes: dict[int, list[Key]] = {}
        for task, running in pool.core.state.running.items():
            attempt = pool.attempts.get(task)
            if attempt is not None and request.affects(running.tenant, running.node):
                nodes.setdefault(attempt.node, []).append((task, attempt.attempt))
        pool.recalls_sent += 1
        request.number = pool.recalls_sent
        for node, keys in nodes.items():
            session = pool.sessions.get(node)
            request.asked.append((session, keys))
            if session is not None:
                session.send(wire.Recall(pool.lease.epoch, keys, request.number))


def recall_on_arrival(pool: PoolState, session: Session) -> None:
    """A node has registered: takes back what it holds of anything paused, which an earlier leader may have left."""
    state = pool.core.state
    keys = [
        (attempt.task, attempt.attempt)
        for attempt in pool.attempts.values()
        if attempt.node == session.node
        and (running := state.running.get(attempt.task)) is not None
        and (state.policy.paused or state.tenants[running.tenant].paused)
    ]
    if keys:
        session.send(wire.Recall(pool.lease.epoch, keys))
