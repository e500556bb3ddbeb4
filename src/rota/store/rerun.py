"""Runs many ended tasks again in one transaction: each becomes a new task, as by `cancel_and_rerun.rerun_task`.

A new run keeps the parents of its task, whose results it reads, and waits for none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.queue import ReadyTask
from rota.store.database import AnyConnection
from rota.store.graph_runs import Copy, copy_members
from rota.store.graphs import parents_of
from rota.store.statements import columns, sql


async def rerun_tasks(
    connection: AnyConnection, tasks: Sequence[int], tenant: int, *, new_ids: Sequence[int], user: str, server: int
) -> tuple[dict[int, int], list[tuple[int, ReadyTask]]]:
    """In the caller's transaction. Returns task → its new run, and the new tasks with their pools.

    A task that another request has run again is left out.
    """
    rows = await connection.fetch(sql("rerun/read_parents"), tasks, tenant)
    present = {row["id"]: row for row in rows}
    pairs = [(old, new) for old, new in zip(tasks, new_ids, strict=True) if old in present]
    olds, news = columns(pairs, 0, 1)
    claimed = {row["task"] for row in await connection.fetch(sql("graph_runs/claim_reruns"), olds, tenant, news)}
    copies = [Copy(old, new, parents_of(present[old], {}), frozenset()) for old, new in pairs if old in claimed]
    if not copies:
        return {}, []
    olds, news = columns(copies, "old", "new")
    ready = await copy_members(connection, copies, user=user, server=server, retry=True)
    await connection.execute(sql("graph_runs/drop_dead_letters"), olds)
    await connection.execute(sql("rerun/copy_memberships"), olds, news)
    return {copy.old: copy.new for copy in copies}, ready
