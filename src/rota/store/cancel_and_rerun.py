"""Edits by a task's owner: cancel, run again. One short transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from rota.model.clock import to_us
from rota.model.queue import ReadyTask, work_hash
from rota.model.task import State
from rota.store.database import AnyConnection
from rota.store.statements import sql

MOST_TRIES = 5


@dataclass(frozen=True, slots=True)
class Cancelled:
    ended: list[tuple[int, int]]  # (task, pool): were waiting, are over
    stopping: list[tuple[int, int, int]]  # (task, pool, attempt): run, and will be stopped
    child_pools: set[int]


async def cancel_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int, reason: str) -> Cancelled:
    """Ends those that wait, asks for those that run to be stopped. Deadlocks with a settlement are tried again."""
    for _ in range(MOST_TRIES - 1):
        try:
            return await _cancel_tasks(connection, tasks, tenant, reason)
        except asyncpg.TransactionRollbackError:
            continue
    return await _cancel_tasks(connection, tasks, tenant, reason)


async def _cancel_tasks(connection: AnyConnection, tasks: Sequence[int], tenant: int, reason: str) -> Cancelled:
    async with connection.transaction():
        # Locked first: else one that starts, fails or is released between the two statements would escape both.
        await connection.execute(
            "select from queue where id = any($1) and tenant = $2 order by id for update", tasks, tenant
        )
        ended = await connection.fetch(sql("cancel_waiting"), tasks, tenant, reason)
        stopping = await connection.fetch(sql("cancel_running"), tasks, tenant)
        ids = [row["id"] for row in ended]
        children = []
        if ids:
            await connection.execute(sql("drop_edges"), ids)
            children = await connection.fetch(sql("resolve_edges"), ids, State.CANCELLED)
    return Cancelled(
        [(row["id"], row["pool"]) for row in ended],
        [(row["id"], row["pool"], row["attempt"]) for row in stopping],
        {row["child_pool"] for row in children},
    )


async def final_states(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> dict[int, State]:
    rows = await connection.fetch(
        "select task, state from attempts where task = any($1) and tenant = $2 and state > 0", tasks, tenant
    )
    return {row["task"]: State(row["state"]) for row in rows}


async def live_states(connection: AnyConnection, tasks: Sequence[int], tenant: int) -> dict[int, State]:
    rows = await connection.fetch("select id, state from queue where id = any($1) and tenant = $2", tasks, tenant)
    return {row["id"]: State(row["state"]) for row in rows}


@dataclass(frozen=True, slots=True)
class Rerun:
    task: int
    rerun: int
    pool: int
    ready: ReadyTask | None  # None: somebody was faster, `rerun` is theirs
    urgent_in_seconds: float | None = None  # None: nobody gave it a tolerance


async def rerun_task(
    connection: AnyConnection, task: int, tenant: int, *, new_id: int, user: str, server: int
) -> Rerun:
    """Exactly one new run per ended task, whoever asks and however often."""
    async with connection.transaction():
        claimed = await connection.fetchval(
            "insert into reruns (task, tenant, rerun) values ($1, $2, $3) on conflict do nothing returning rerun",
            task, tenant, new_id,
        )  # fmt: skip
        if claimed is None:
            existing = await connection.fetchval("select rerun from reruns where task = $1", task)
            return Rerun(task, existing, 0, None)
        row = await connection.fetchrow(sql("rerun_task"), task, new_id, user, server)
        assert row is not None
        work = work_hash(row["kind"], row["name"])
        await connection.execute(sql("keep_tags"), [new_id])
        await connection.execute("delete from dead_letters where task = $1", task)
        await connection.execute(
            """insert into graph_tasks (graph, task, tenant, name, place, item, parent)
                select graph, $2, tenant, name, place, item, parent from graph_tasks where task = $1""",
            task, new_id,
        )  # fmt: skip
        await connection.execute(
            """insert into queue (id, state, start_by, wake_at, pool, tenant, lane, urgency, cap_ms, shape, work,
                attempts, concurrency_key, concurrency_limit, preemptible, concurrency_global, expires)
                values ($1, 3, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)""",
            new_id, row["start_by"], row["urgent_at"], row["pool"], tenant, row["lane"], -row["priority"],
            row["cap_ms"], row["shape"], work, row["attempts"], row["concurrency_key"], row["concurrency_limit"],
            row["preemptible"], row["concurrency_global"], row["expires"],
        )  # fmt: skip
    ready = ReadyTask(
        new_id, 0, tenant, row["lane"], -row["priority"], to_us(row["start_by"]), row["cap_ms"], row["shape"], work,
        row["concurrency_key"], row["concurrency_limit"] or 1, row["preemptible"],
        concurrency_global=row["concurrency_global"],
    )  # fmt: skip
    return Rerun(task, new_id, row["pool"], ready, row["urgent_in"])
