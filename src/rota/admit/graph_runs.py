"""Runs a graph again: its failed tasks, or all of it. `plan` decides purely which tasks are copied."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from rota.admit.ids import IdBlocks
from rota.admit.limits import check_limits, too_many_graphs
from rota.model.errors import conflict, not_found, unavailable
from rota.model.queue import ReadyTask
from rota.model.task import State, Upstream
from rota.model.tenant import Caller
from rota.store import graphs
from rota.store.admission import lock_parents
from rota.store.database import CONNECTION_LOST, AnyConnection, Database
from rota.store.graph_runs import Copy, claim_reruns, copy_members
from rota.store.graphs import GraphRow

Announce = Callable[[int, ReadyTask], None]
Note = Callable[[AnyConnection, int, list[int]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Again:
    """The graph of the new run, and its new tasks by name."""

    graph: int
    tasks: dict[str, int]


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    after: tuple[tuple[int, Upstream], ...]


def plan(nodes: Sequence[Node], new_ids: Mapping[int, int], ends: Mapping[int, State | None]) -> list[Copy]:
    """The copies to make of `nodes`, which are in topological order.

    A parent that is copied is replaced by its copy. Another parent counts as it ended; None in `ends`: it is waited
    for. A task that would be skipped again is not copied, nor are its dependents.
    """
    copies: list[Copy] = []
    copied: dict[int, int] = {}
    for node in nodes:
        after: list[tuple[int, Upstream]] = []
        waits_for: set[int] = set()
        for parent, rule in node.after:
            if parent in copied:
                after.append((copied[parent], rule))
                waits_for.add(copied[parent])
                continue
            end = ends.get(parent)
            if parent in ends and end is None:
                waits_for.add(parent)
            elif end is None or not rule.met_by(end):
                break
            after.append((parent, rule))
        else:
            copied[node.id] = new_ids[node.id]
            copies.append(Copy(node.id, new_ids[node.id], tuple(after), frozenset(waits_for)))
    return copies


class GraphRuns:
    def __init__(self, database: Database, ids: IdBlocks, *, server: Callable[[], int], announce: Announce) -> None:
        self._database = database
        self._ids = ids
        self._server = server
        self._announce = announce

    async def again(self, caller: Caller, number: int, *, retry: bool, note: Note) -> Again:
        """Copies all tasks as a new graph. `retry`: within the graph, and only tasks that ended without being done.

        `note` is called in the transaction, with the graph of the new run and the tasks that run again.
        """
        # 1. Choose the tasks, each with its present parents.
        tenant = caller.tenant_id
        async with self._database.tenant(tenant) as connection:
            graph = await graphs.read_graph(connection, number, tenant)
            if graph is None:
                raise not_found("graph")
            members = await graphs.read_members(connection, number, tenant)
            successors = await graphs.successors(connection, number, tenant)
        chosen = _without_submitted([row for row in members if not retry or row["state"] > State.DONE], successors)
        nodes = [Node(row["id"], graphs.parents_of(row, successors)) for row in chosen]
        if not nodes:
            detail = f"no task of graph {number} failed, expired, or was cancelled or skipped"
            raise conflict("nothing-to-retry", detail)
        # 2. Apply the limits of a submission; take ids.
        await check_limits(self._database, caller, len(nodes))
        try:
            ids = await self._ids.take(len(nodes) + 1)
        except CONNECTION_LOST as error:
            raise unavailable("the database can't be reached right now; try again") from error
        new_ids = {node.id: new for node, new in zip(nodes, ids[1:], strict=True)}
        # 3. Plan and write while the parents are locked and can't end.
        outside = [parent for node in nodes for parent, _ in node.after if parent not in new_ids]
        async with self._database.engine() as connection, connection.transaction():
            parents = await lock_parents(connection, outside) if outside else {}
            ends = {number: None if one.state is None else State(one.state) for number, one in parents.items()}
            copies = plan(nodes, new_ids, ends)
            _check(number, nodes, copies, retry=retry)
            if retry and not await claim_reruns(connection, tenant, copies):
                raise conflict("already-retried", f"tasks of graph {number} were retried by another request just now")
            ready = await copy_members(connection, copies, user=caller.user, server=self._server(), retry=retry)
            rows = {row["id"]: row for row in chosen}
            new = [(copy.new, *(rows[copy.old][name] for name in ("name", "place", "item"))) for copy in copies]
            if retry:
                await graphs.copy_memberships(connection, [copy.old for copy in copies], [copy.new for copy in copies])
            else:
                row = GraphRow(
                    id=ids[0],
                    tenant=tenant,
                    user=caller.user,
                    name=graph["name"],
                    members=tuple(new),
                    is_array=graph["is_array"],
                    rerun_of=number,
                    from_task=graph["from_task"],
                )
                if not await graphs.insert_graph(connection, row, caller.plan.graphs):
                    raise too_many_graphs(caller.plan)
            await note(connection, number if retry else ids[0], [copy.old for copy in copies])
        # 4. One hint per pool; its leader reads the rest.
        for pool in {pool for pool, _ in ready}:
            self._announce(pool, min((task for own, task in ready if own == pool), key=lambda task: task.order))
        return Again(number if retry else ids[0], {name: task for task, name, _, _ in new})


def _without_submitted(rows: Sequence[asyncpg.Record], successors: Mapping[int, int]) -> list[asyncpg.Record]:
    """Without the tasks whose submitting task runs again too: it submits them again."""
    again = {row["id"] for row in rows}
    return [row for row in rows if successors.get(row["parent"], row["parent"]) not in again]


def _check(graph: int, nodes: Sequence[Node], copies: Sequence[Copy], *, retry: bool) -> None:
    if retry and not copies:
        raise conflict("nothing-to-retry", f"every task of graph {graph} that did not run would be skipped again")
    if not retry and len(copies) < len(nodes):
        copied = {copy.old for copy in copies}
        stuck = next(node.id for node in nodes if node.id not in copied)
        detail = f"task {stuck} of graph {graph} depends on a task outside of the graph that did not end as required"
        raise conflict("upstream-ended", detail)
