"""The results a batch of starts is handed: one read for the batch, and none when nothing in it depends on others."""

from __future__ import annotations

import structlog

from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.pool import PoolState
from rota.model.attempt import MOST_INPUT_BYTES_A_TASK, Input
from rota.store.database import CONNECTION_LOST
from rota.store.parent_results import read_inputs
from rota.store.queue import Started

log = structlog.get_logger()

Inputs = dict[int, tuple[Input, ...]]  # by the task that is handed them


async def inputs_of(pool: PoolState, connection: FencedConnection, started: list[Started]) -> Inputs | None:
    """None when we lead no more: what has to be handed something must not be sent without."""
    waited = {row.task: row.after for row in started if row.after}
    if not waited:
        return {}
    parents = sorted({parent for after in waited.values() for parent in after})
    while pool.lease.valid():
        try:
            found = await read_inputs(await connection.get(), parents)
        except CONNECTION_LOST as error:
            log.warning("cycle.inputs_unread", pool=pool.name, tasks=len(waited), error=repr(error))
            connection.lost()
            pool.wakes.cycle.clear()
            await pool.wakes.cycle.wait()  # the slow poll's pulse: no busy loop while the database is away
            continue
        return {task: bounded([found[parent] for parent in sorted(after) if parent in found])
                for task, after in waited.items()}  # fmt: skip
    return None


def bounded(inputs: list[Input]) -> tuple[Input, ...]:
    """As many results as fit into one start, in the order of submission; of the others only their names."""
    left = MOST_INPUT_BYTES_A_TASK
    kept = []
    for one in inputs:
        size = len(one.result or b"")
        kept.append(one if size <= left else Input(one.task, one.name, None))
        left -= size if size <= left else 0
    return tuple(kept)
