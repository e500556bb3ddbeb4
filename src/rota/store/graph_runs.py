"""Running members of a graph again, as new tasks: all of them in a new graph, or those that ended badly in this one.

The caller plans inside the transaction, on parents that are locked; what is written is one statement for all tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.queue import ReadyTask, work_hash
from rota.model.task import State, Upstream
from rota.store.admission import copy_edges
from rota.store.database import AnyConnection
from rota.store.queue import ready_task
from rota.store.statements import sql


@dataclass(frozen=True, slots=True)
class Copy:
    """A new run. `after`: parents and what is wanted of them; `waits_for`: those of them that have not ended."""

    old: int
    new: int
    after: tuple[tuple[int, Upstream], ...]
    waits_for: frozenset[int]


async def claim_reruns(connection: AnyConnection, tenant: int, copies: Sequence[Copy]) -> bool:
    """At most one new run per ended task: false when somebody has one of them already."""
    claimed = await connection.fetch(
        """insert into reruns (task, tenant, rerun) select task, $2, rerun from unnest($1::bigint[], $3::bigint[])
            as given (task, rerun) order by task on conflict do nothing returning task""",
        [copy.old for copy in copies], tenant, [copy.new for copy in copies],
    )  # fmt: skip
    if len(claimed) < len(copies):
        return False
    await connection.execute("delete from dead_letters where task = any($1)", [copy.old for copy in copies])
    return True


async def copy_members(
    connection: AnyConnection, copies: Sequence[Copy], *, user: str, server: int, retry: bool
) -> list[tuple[int, ReadyTask]]:
    """Writes the new runs; those that may start at once, with their pools."""
    olds = [copy.old for copy in copies]
    kinds = {
        row["id"]: row for row in await connection.fetch("select id, kind, name from tasks where id = any($1)", olds)
    }
    edges = [(copy.new, parent, rule) for copy in copies for parent, rule in copy.after]
    rows = await connection.fetch(
        sql("copy_members"), olds, [copy.new for copy in copies],
        [work_hash(kinds[old]["kind"], kinds[old]["name"]) for old in olds], [bool(copy.waits_for) for copy in copies],
        [child for child, _, _ in edges], [parent for _, parent, _ in edges], [rule for _, _, rule in edges],
        user, retry, server,
    )  # fmt: skip
    await connection.execute(sql("keep_tags"), [copy.new for copy in copies])
    pools = {row["id"]: row["pool"] for row in rows}
    live = [
        (parent, copy.new, pools[copy.new], int(rule))
        for copy in copies for parent, rule in copy.after if parent in copy.waits_for
    ]  # fmt: skip
    if live:
        await copy_edges(connection, live)
    return [(row["pool"], ready_task(row)) for row in rows if row["state"] == State.READY]
