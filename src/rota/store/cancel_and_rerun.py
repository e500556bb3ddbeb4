"""Cancels tasks, and runs ended ones again. One short transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from rota.model.queue import ReadyTask, work_hash
from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.queue import ready_task
from rota.store.statements import sql

MOST_TRIES = 5


@dataclass(frozen=True, slots=True)
class Cancelled:
    ended: list[tuple[int, int]]  # (task, pool) of tasks that waited
    stopping: list[tuple[int, int, int]]  # (task, pool, attempt) of running tasks
    dependent_pools: set[int]


def cancelled_reason(user: str, reason: str) -> str:
    """The sentence that a task which was cancelled before it started shows."""
    return f"cancelled by {user} before it started" + (f": {reason}" if reason else "")


async def cancel_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int, reason: str) -> Cancelled:
    """Ends waiting tasks and requests a stop of running ones. Tries again after a deadlock with a settlement."""
    for _ in range(MOST_TRIES - 1):
        try:
            return await _cancel_tasks(connection, tasks, tenant, reason)
        except asyncpg.TransactionRollbackError:
            continue
    return await _cancel_tasks(connection, tasks, tenant, reason)


async def _cancel_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int, reason: str) -> Cancelled:
    async with connection.transaction():
        # Locked first: a task that starts, fails or is released between the two statements would escape both.
        await connection.execute(sql("pausing/lock_tasks"), tasks, tenant)
        ended = await connection.fetch(sql("cancel_and_rerun/cancel_waiting"), tasks, tenant, reason)
        stopping = await connection.fetch(sql("cancel_and_rerun/cancel_running"), tasks, tenant)
        ids = [row["id"] for row in ended]
        children = []
        if ids:
            await connection.execute(sql("settlement/drop_edges"), ids)
            children = await connection.fetch(sql("settlement/resolve_edges"), ids, State.CANCELLED)
    return Cancelled(
        [(row["id"], row["pool"]) for row in ended],
        [(row["id"], row["pool"], row["attempt"]) for row in stopping],
        {row["child_pool"] for row in children},
    )


async def final_states(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> dict[int, State]:
    rows = await connection.fetch(sql("cancel_and_rerun/final_states"), tasks, tenant)
    return {row["task"]: State(row["state"]) for row in rows}


async def live_states(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> dict[int, State]:
    rows = await connection.fetch(sql("cancel_and_rerun/live_states"), tasks, tenant)
    return {row["id"]: State(row["state"]) for row in rows}


@dataclass(frozen=True, slots=True)
class Rerun:
    task: int
    rerun: int
    pool: int
    ready: ReadyTask | None  # None: the task had been run again before, as `rerun`
    urgent_in_seconds: float | None = None  # None: it has no tolerance of its own


async def rerun_task(
    connection: AnyConnection, task: int, tenant: int, *, new_id: int, user: str, server: int
) -> Rerun:
    """Makes one new run of an ended task; repeated requests get the same run."""
    async with connection.transaction():
        claimed = await connection.fetchval(sql("cancel_and_rerun/claim_rerun"), task, tenant, new_id)
        if claimed is None:
            existing = await connection.fetchval(sql("cancel_and_rerun/find_rerun"), task)
            return Rerun(task, existing, 0, None)
        copied = await connection.fetchrow(sql("cancel_and_rerun/rerun_task"), task, new_id, user, server)
        assert copied is not None
        await connection.execute(sql("admission/keep_tags"), [new_id])
        await connection.execute(sql("admission/keep_dependents"), [new_id])
        await connection.execute(sql("cancel_and_rerun/drop_dead_letter"), task)
        await connection.execute(sql("cancel_and_rerun/copy_membership"), task, new_id)
        work = work_hash(copied["kind"], copied["name"])
        row = await connection.fetchrow(sql("cancel_and_rerun/queue_rerun"), new_id, work)
        assert row is not None
    return Rerun(task, new_id, row["pool"], ready_task(row), row["wakes_in"])
