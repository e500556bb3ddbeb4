"""The requests about graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from rota.client.calls.call import Call, get, post
from rota.client.calls.conversations import Clock, Conversation, ask, wait_for_all
from rota.client.calls.conversations import wait as wait_for_task
from rota.client.calls.task_calls import LONGEST_WAIT_SECONDS, because
from rota.model.answers.graphs import GraphAgain, GraphCancelled, GraphDocument, GraphHeld, GraphPage, SubmittedGraph
from rota.model.answers.tasks import EndedTask, TaskDocument
from rota.model.request.task_request import GraphRequest, TaskRequest


def submit(name: str, tasks: Sequence[TaskRequest], fresh_key: str | None) -> Call[SubmittedGraph]:
    return post("/v1/graphs", SubmittedGraph, GraphRequest(name=name, tasks=list(tasks)), key=fresh_key)


class GraphFilter(TypedDict, total=False):
    """Selects graphs. `since` and `until`: by the time of submission, `10m` ago or a time with its offset."""

    name: str | None
    schedule: str | None
    user: str | None
    since: str | None
    until: str | None


def graphs(filters: GraphFilter, *, limit: int | None = None, cursor: str | None = None) -> Call[GraphPage]:
    return get("/v1/graphs", GraphPage, {**filters, "limit": limit, "cursor": cursor})


def graph(
    graph_id: int, *, ancestors_of: str | int | None = None, descendants_of: str | int | None = None
) -> Call[GraphDocument]:
    query = {"ancestors_of": ancestors_of, "descendants_of": descendants_of}
    return get(f"/v1/graphs/{graph_id}", GraphDocument, query)


def cancel(graph_id: int, reason: str = "") -> Call[GraphCancelled]:
    return post(f"/v1/graphs/{graph_id}/cancel", GraphCancelled, because(reason), repeatable=True)


def hold(graph_id: int, reason: str = "") -> Call[GraphHeld]:
    return post(f"/v1/graphs/{graph_id}/hold", GraphHeld, {"reason": reason}, repeatable=True)


def release(graph_id: int, reason: str = "") -> Call[GraphHeld]:
    return post(f"/v1/graphs/{graph_id}/release", GraphHeld, because(reason), repeatable=True)


def retry(graph_id: int, reason: str = "") -> Call[GraphAgain]:
    return post(f"/v1/graphs/{graph_id}/retry", GraphAgain, because(reason))


def rerun(graph_id: int, reason: str = "") -> Call[GraphAgain]:
    return post(f"/v1/graphs/{graph_id}/rerun", GraphAgain, because(reason))


def wait(
    graph_id: int, timeout_seconds: float | None, clock: Clock, longest_seconds: float = LONGEST_WAIT_SECONDS
) -> Conversation[GraphDocument]:
    """The graph once all of its tasks have ended, those that join meanwhile included."""
    until = None if timeout_seconds is None else clock() + timeout_seconds
    while True:
        document = yield from ask(graph(graph_id))
        live = [task.id for task in document.tasks if not task.ended]
        if not live:
            return document
        left = None if until is None else max(0.0, until - clock())
        yield from wait_for_all(live, left, clock, longest_seconds=longest_seconds)


def wait_with_submitted(
    task_id: int, timeout_seconds: float | None, clock: Clock, longest_seconds: float = LONGEST_WAIT_SECONDS
) -> Conversation[TaskDocument]:
    """The task's document once it has ended, and all that it submitted because it may, however late."""
    until = None if timeout_seconds is None else clock() + timeout_seconds
    document = yield from wait_for_task(task_id, timeout_seconds, clock, longest_seconds)
    if document.own_graph is not None:
        left = None if until is None else max(0.0, until - clock())
        yield from wait(document.own_graph, left, clock, longest_seconds)
    return document


def ends(document: GraphDocument) -> dict[int, EndedTask]:
    """Its tasks in the form that `wait` returns, without results."""
    return {
        task.id: EndedTask(id=task.id, state=task.state, exit_code=task.exit_code, reason=task.reason)
        for task in document.tasks
    }
