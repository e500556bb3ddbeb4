"""Results of parent tasks for a batch of starts: one read for the batch, and none if no task of it has parents."""

from __future__ import annotations

import structlog

from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.pool import PoolState
from rota.model.attempt import MOST_INPUT_BYTES_A_TASK, Input
from rota.store.database import CONNECTION_LOST
from rota.store.parent_results import read_inputs
from rota.store.queue import Started

log = structlog.get_logger()

Inputs = dict[int, tuple[Input, ...]]  # task → results of its parents


async def inputs_of(pool: PoolState, connection: FencedConnection, started: list[Started]) -> Inputs | None:
    """By task. None if the lease is over: a task must not be sent without the results of its parents."""
    after = {row.task: row.after for row in started if row.after}
    if not after:
        return {}
    parents = sorted({parent for own in after.values() for parent in own})
    while pool.lease.valid():
        try:
            results = await read_inputs(await connection.get(), parents)
        except CONNECTION_LOST as error:
            log.warning("cycle.inputs_unread", pool=pool.name, tasks=len(after), error=repr(error))
            connection.lost()
            pool.wakes.cycle.clear()
            await pool.wakes.cycle.wait()  # the slow poll sets it: no busy loop while the database is away
            continue
        return {
            task: bounded([results[parent] for parent in sorted(own) if parent in results])
            for task, own in after.items()
        }
    return None


def bounded(inputs: list[Input]) -> tuple[Input, ...]:
    """As many results as fit into one start, in the order of submission; without the result for the others."""
    left = MOST_INPUT_BYTES_A_TASK
    kept = []
    for parent in inputs:
        size = len(parent.result or b"")
        kept.append(parent if size <= left else Input(parent.task, parent.name, None))
        left -= size if size <= left else 0
    return tuple(kept)
