"""Runs members of a graph again as new tasks: all of them in a new graph, or the failed ones in the same graph.

The caller plans inside the transaction, on locked parents. One statement writes all tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.queue import ReadyTask, work_hash
from rota.model.task import State, Upstream
from rota.store.admission import copy_edges
from rota.store.database import AnyConnection
from rota.store.queue import ready_task
from rota.store.statements import columns, sql


@dataclass(frozen=True, slots=True)
class Copy:
    """A new run. `after`: its parents and the rule for each; `waits_for`: the parents that have not ended."""

    old: int
    new: int
    after: tuple[tuple[int, Upstream], ...]
    waits_for: frozenset[int]


async def claim_reruns(connection: AnyConnection, tenant: int, copies: Sequence[Copy]) -> bool:
    """At most one new run per ended task. False: one of them was run again before."""
    olds, news = columns(copies, "old", "new")
    claimed = await connection.fetch(sql("graph_runs/claim_reruns"), olds, tenant, news)
    if len(claimed) < len(copies):
        return False
    await connection.execute(sql("graph_runs/drop_dead_letters"), olds)
    return True


async def copy_members(
    connection: AnyConnection, copies: Sequence[Copy], *, user: str, server: int, retry: bool
) -> list[tuple[int, ReadyTask]]:
    """Writes the new runs. Returns those that may start at once, with their pools."""
    olds, news = columns(copies, "old", "new")
    kinds = {row["id"]: row for row in await connection.fetch(sql("graph_runs/read_work"), olds)}
    edges = [(copy.new, parent, rule) for copy in copies for parent, rule in copy.after]
    rows = await connection.fetch(
        sql("graph_runs/copy_members"),
        olds,
        news,
        [work_hash(kinds[old]["kind"], kinds[old]["name"]) for old in olds],
        [bool(copy.waits_for) for copy in copies],
        *columns(edges, 0, 1, 2),
        user,
        retry,
        server,
    )
    await connection.execute(sql("admission/keep_tags"), news)
    if edges:
        await connection.execute(sql("admission/keep_dependents"), news)
    pools = {row["id"]: row["pool"] for row in rows}
    live = [
        (parent, copy.new, pools[copy.new], int(rule))
        for copy in copies
        for parent, rule in copy.after
        if parent in copy.waits_for
    ]
    if live:
        await copy_edges(connection, live)
    return [(row["pool"], ready_task(row)) for row in rows if row["state"] == State.READY]
