"""The requests about graphs, and their answers. Under the rule of `calls.py`: values only, nothing here connects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

import msgspec

from rota.client.calls.conversations import Clock, Conversation, ask, wait_for_all
from rota.client.calls.task_calls import Call, get, post, reader
from rota.model.answers.tasks import ENDED_STATES, EndedTask
from rota.model.request.task_request import GraphRequest, TaskRequest


class SubmittedGraph(msgspec.Struct, frozen=True, kw_only=True):
    """`tasks`: ids by the names inside the graph."""

    id: int
    name: str = ""
    created: bool = True
    tasks: dict[str, int] = {}


class GraphTask(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str
    state: str
    status: str = ""
    after: list[int] = []
    after_end: list[int] = []
    after_failed: list[int] = []
    started_at: datetime | None = None
    ended_at: datetime | None = None
    run_seconds: float | None = None
    exit_code: int | None = None
    reason: str | None = None
    retry_of: int | None = None
    parent: int | None = None  # the running task that submitted it

    @property
    def ended(self) -> bool:
        return self.state in ENDED_STATES

    @property
    def parents(self) -> list[int]:
        return [*self.after, *self.after_end, *self.after_failed]


class PathStep(msgspec.Struct, frozen=True, kw_only=True):
    """One task of the critical path: how long it waited once it could have started, and how long it ran."""

    id: int
    name: str
    state: str = ""
    waited_seconds: float = 0.0
    run_seconds: float = 0.0


class GraphDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A graph; in a list without its tasks."""

    id: int
    name: str
    status: str
    user: str = ""
    size: int = 0
    counts: dict[str, int] = {}  # by status
    states: dict[str, int] = {}
    created_at: datetime | None = None
    ended_at: datetime | None = None
    array: bool = False
    rerun_of: int | None = None
    schedule: str | None = None  # what made it
    scheduled_for: datetime | None = None
    tasks: list[GraphTask] = []
    critical_path: list[PathStep] = []

    @property
    def ended(self) -> bool:
        return self.status not in ("waiting", "in progress")


class GraphPage(msgspec.Struct, frozen=True, kw_only=True):
    graphs: list[GraphDocument]
    next: str | None = None


class GraphCancelled(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    cancelled: list[int] = []
    cancelling: list[int] = []


class GraphHeld(msgspec.Struct, frozen=True, kw_only=True):
    """Of a hold: what is held back now, and what runs and goes on. Of a release: what goes on again."""

    id: int
    held: list[int] = []
    running: list[int] = []
    released: list[int] = []


class GraphAgain(msgspec.Struct, frozen=True, kw_only=True):
    """A retry's or re-run's graph, and the new tasks by name."""

    id: int
    tasks: dict[str, int] = {}
    rerun_of: int | None = None


def submit(name: str, tasks: Sequence[TaskRequest], fresh_key: str | None) -> Call[SubmittedGraph]:
    return Call(
        "POST", "/v1/graphs", reader(SubmittedGraph),
        body=msgspec.json.encode(GraphRequest(name=name, tasks=list(tasks))), idempotency_key=fresh_key,
        repeatable=fresh_key is not None,
    )  # fmt: skip


class GraphFilter(TypedDict, total=False):
    """Which graphs. `since` and `until`: when it was submitted, `10m` ago or a time with its offset."""

    name: str | None
    schedule: str | None
    user: str | None
    since: str | None
    until: str | None


def graphs(wanted: GraphFilter, *, limit: int | None = None, cursor: str | None = None) -> Call[GraphPage]:
    return get("/v1/graphs", GraphPage, {**wanted, "limit": limit, "cursor": cursor})


def graph(
    graph_id: int, *, ancestors_of: str | int | None = None, descendants_of: str | int | None = None
) -> Call[GraphDocument]:
    query = {"ancestors_of": ancestors_of, "descendants_of": descendants_of}
    return get(f"/v1/graphs/{graph_id}", GraphDocument, query)


def cancel(graph_id: int) -> Call[GraphCancelled]:
    return post(f"/v1/graphs/{graph_id}/cancel", GraphCancelled)


def hold(graph_id: int, reason: str = "") -> Call[GraphHeld]:
    return post(f"/v1/graphs/{graph_id}/hold", GraphHeld, {"reason": reason}, repeatable=True)


def release(graph_id: int) -> Call[GraphHeld]:
    return post(f"/v1/graphs/{graph_id}/release", GraphHeld, repeatable=True)


def retry(graph_id: int) -> Call[GraphAgain]:
    return post(f"/v1/graphs/{graph_id}/retry", GraphAgain)


def rerun(graph_id: int) -> Call[GraphAgain]:
    return post(f"/v1/graphs/{graph_id}/rerun", GraphAgain)


def wait(graph_id: int, timeout_seconds: float | None, clock: Clock) -> Conversation[GraphDocument]:
    """The graph once everybody in it has ended; who joins meanwhile is waited for too."""
    until = None if timeout_seconds is None else clock() + timeout_seconds
    while True:
        document = yield from ask(graph(graph_id))
        live = [task.id for task in document.tasks if not task.ended]
        if not live:
            return document
        left = None if until is None else max(0.0, until - clock())
        yield from wait_for_all(live, left, clock)


def ends(document: GraphDocument) -> dict[int, EndedTask]:
    """Its tasks as `wait` tells of them, without their results."""
    return {
        task.id: EndedTask(id=task.id, state=task.state, exit_code=task.exit_code, reason=task.reason)
        for task in document.tasks
    }
