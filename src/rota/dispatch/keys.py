"""What the leader's slow poll does for concurrency keys: looks which are cooled down, and whether those that keep tasks
waiting are free again.
"""

from __future__ import annotations

import structlog

from rota import planted
from rota.decide.messages import KeysCooled, KeysSeen
from rota.dispatch.pool import PoolState
from rota.store import keys
from rota.store.database import AnyConnection

log = structlog.get_logger()


async def follow_keys(pool: PoolState, connection: AnyConnection) -> None:
    """Called with every slow poll: a settlement's own news, and hints of other pools, are faster, but may be lost."""
    if not (planted.ACTIVE and planted.has("place-never-given-back")):
        swept = await keys.sweep_places(connection, pool.id)
        if swept:
            log.error("keys.places_swept", pool=pool.name, tasks=swept[:20])
    cooled = await keys.read_cooled(connection)
    if cooled != pool.core.state.cooled:
        pool.core.apply(KeysCooled(cooled), pool.now_us())
    watched = pool.core.watched_keys()
    if watched or pool.watching_keys:
        seen = await keys.watch_keys(connection, pool.id, watched)
        pool.core.apply(KeysSeen(seen), pool.now_us())
    pool.watching_keys = bool(watched)
