"""Concurrency keys as the leader reads them: cooled-down keys with every slow poll and before a task with a key starts,
and with every slow poll the keys counted across pools that keep tasks waiting.
"""

from __future__ import annotations

import structlog

from rota.decide.messages import KeysCooled, KeysSeen, PlaceRefused, Start
from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.pool import PoolState
from rota.store import concurrency_keys
from rota.store.database import CONNECTION_LOST, AnyConnection

log = structlog.get_logger()


async def follow_keys(pool: PoolState, connection: AnyConnection) -> None:
    """Called with every slow poll. News from settlements and hints from other pools are faster, but may be lost."""
    swept = await concurrency_keys.sweep_places(connection, pool.id)
    if swept:
        log.error("keys.places_swept", pool=pool.name, tasks=swept[:20])
    await _learn_cooled(pool, connection)
    watched = pool.core.watched_keys()
    if watched or pool.polled.watching_keys:
        seen = await concurrency_keys.watch_keys(connection, pool.id, watched)
        pool.core.apply(KeysSeen(seen), pool.now_us())
    pool.polled.watching_keys = bool(watched)


async def hold_cooled(pool: PoolState, connection: FencedConnection, starts: list[Start]) -> list[Start]:
    """The starts whose key is not cooled down. The others queue again.

    So a client that was told of a cool-down sees no start with the key, except starts that were under way.
    """
    if not any(start.task.concurrency_key for start in starts):
        return starts
    try:
        await _learn_cooled(pool, await connection.get())
        cooled = pool.core.state.cooled
        held = [start.task for start in starts if (start.task.tenant, start.task.concurrency_key) in cooled]
        if held:
            pool.wakes.cycle.set()  # their resources are free for others at once
    except CONNECTION_LOST as error:
        log.warning("keys.unknown", pool=pool.name, error=repr(error))
        connection.lost()
        held = [start.task for start in starts if start.task.concurrency_key]  # until the slow poll wakes the cycle
    for task in held:
        pool.core.apply(PlaceRefused(task), pool.now_us())
    back = {task.id for task in held}
    return [start for start in starts if start.task.id not in back]


async def _learn_cooled(pool: PoolState, connection: AnyConnection) -> None:
    cooled = await concurrency_keys.read_cooled(connection)
    if cooled != pool.core.state.cooled:
        pool.core.apply(KeysCooled(cooled), pool.now_us())
