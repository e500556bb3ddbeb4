"""The graphs of a submission, in its transaction: one that it makes, one that it joins, or those that its tasks begin.

What a running task submits with its key joins the task's graph: lone tasks as members, graphs and arrays as graphs
within it. Such a graph takes a bounded number of tasks, so that no task can multiply without end. A task that may
submit and joins no graph begins one of its own.
"""

from __future__ import annotations

from dataclasses import replace

from rota.admit.authenticate import key_is_over
from rota.admit.limits import too_many_graphs
from rota.admit.submission import Admitted, Submission
from rota.model.errors import Problem
from rota.model.tenant import SubmittingTask
from rota.store import graphs
from rota.store.database import Connection
from rota.store.graphs import GraphRow
from rota.store.task_rows import Draft


async def join_graphs(connection: Connection, submission: Submission, outcome: Admitted) -> None:
    """Writes graphs and members. Raises Problem if a limit refuses them; nothing was written then."""
    replayed = frozenset(outcome.replayed)
    new = [draft for index, draft in enumerate(submission.drafts) if index not in replayed]
    task, graph = submission.caller.task, submission.graph
    if task is not None:
        await _grow(connection, submission, task, new)
    elif graph is not None:
        await _insert(connection, submission, graph)
    elif submission.parent is not None or submission.beginnings:
        await _join_or_begin(connection, submission, new)
    if graph is not None:
        outcome.graph = graph.id


async def _grow(connection: Connection, submission: Submission, task: SubmittingTask, new: list[Draft]) -> None:
    tenant, most = submission.caller.tenant_id, submission.growth_limit
    places = await graphs.take_places(
        connection, task.graph, tenant, len(new), most=most, task=task.id, attempt=task.attempt
    )
    if not places.is_live:
        raise key_is_over(task.id, task.attempt)
    if places.first is None:
        raise _grown(task.graph, most)
    if submission.graph is not None:
        within = replace(submission.graph, within=task.graph, parent=task.id, first_place=places.first)
        await _insert(connection, submission, within)
        return
    members = [(draft.id, draft.template.name, number, None) for number, draft in enumerate(new)]
    await graphs.add_members(connection, task.graph, tenant, members, parent=task.id, first_place=places.first)


async def _insert(connection: Connection, submission: Submission, graph: GraphRow) -> None:
    if not await graphs.insert_graph(connection, graph, submission.caller.plan.graphs):
        raise too_many_graphs(submission.caller.plan)


async def _join_or_begin(connection: Connection, submission: Submission, new: list[Draft]) -> None:
    caller, joined = submission.caller, set[int]()
    if submission.parent is not None:
        ids, names = [draft.id for draft in new], [draft.template.name for draft in new]
        joined = await graphs.join_graph(connection, submission.parent, caller.tenant_id, ids, names)
    alone = {draft.id for draft in new} - joined
    beginnings = [graph for graph in submission.beginnings if graph.members[0][0] in alone]
    if not beginnings:
        return
    if not await graphs.count_graphs(connection, caller.tenant_id, len(beginnings), caller.plan.graphs):
        raise too_many_graphs(caller.plan)
    await graphs.insert_graphs(connection, beginnings)


def _grown(graph: int, most: int) -> Problem:
    detail = (
        f"running tasks may submit {most} tasks into one graph, and graph {graph} has as many, or would have more; "
        f"an operator can raise growth_limit"
    )
    extra: dict[str, object] = {"limit": "growth_limit", "most": most}
    return Problem("quota-exceeded", status=422, title="Limit exceeded", detail=detail, extra=extra)
