"""Graphs that exist, seen from Python: `client.graphs` and its awaiting twin. They are built in `graph.py`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, Unpack

from rota.client.calls import graph_calls
from rota.client.calls.conversations import Conversation
from rota.client.calls.graph_calls import GraphFilter
from rota.client.calls.task_calls import Answer, Call
from rota.model.answers.graphs import GraphAgain, GraphCancelled, GraphDocument, GraphHeld, GraphPage, SubmittedGraph
from rota.model.request.task_request import TaskRequest

Value = TypeVar("Value")


class Built(Protocol):
    """A graph that was built and can be sent."""

    name: str

    def requests(self) -> list[TaskRequest]: ...


class ArrayHandle:
    """An array: one thing to wait for and to cancel, and a result for each of its tasks."""

    def __init__(self, client: Gathers, array_id: int, returns: object | None = None) -> None:
        self._client = client
        self.id = array_id
        self.returns = returns

    def __repr__(self) -> str:
        return f"ArrayHandle({self.id})"

    def document(self) -> GraphDocument:
        return self._client.graphs.get(self.id)

    def wait(self, timeout: float | None = None) -> GraphDocument:
        return self._client.graphs.wait(self.id, timeout)

    def cancel(self) -> GraphCancelled:
        return self._client.graphs.cancel(self.id)

    def results(self, timeout: float | None = None) -> Sequence[Any]:
        """What each returned, in the order of the indexes; the first failure is raised."""
        return self._client.gather([_Member(task.id, self.returns) for task in self.document().tasks], timeout)


class AsyncArrayHandle:
    """An array: one thing to wait for and to cancel, and a result for each of its tasks."""

    def __init__(self, client: AsyncGathers, array_id: int, returns: object | None = None) -> None:
        self._client = client
        self.id = array_id
        self.returns = returns

    def __repr__(self) -> str:
        return f"AsyncArrayHandle({self.id})"

    async def document(self) -> GraphDocument:
        return await self._client.graphs.get(self.id)

    async def wait(self, timeout: float | None = None) -> GraphDocument:
        return await self._client.graphs.wait(self.id, timeout)

    async def cancel(self) -> GraphCancelled:
        return await self._client.graphs.cancel(self.id)

    async def results(self, timeout: float | None = None) -> Sequence[Any]:
        """What each returned, in the order of the indexes; the first failure is raised."""
        members = (await self.document()).tasks
        return await self._client.gather([_Member(task.id, self.returns) for task in members], timeout)


@dataclass(frozen=True, slots=True)
class _Member:
    id: int
    returns: object | None


class Gathers(Protocol):
    graphs: Graphs

    def gather(self, tasks: Iterable[_Member], timeout: float | None = None) -> Sequence[Any]: ...


class AsyncGathers(Protocol):
    graphs: AsyncGraphs

    async def gather(self, tasks: Iterable[_Member], timeout: float | None = None) -> Sequence[Any]: ...


class Converses(Protocol):
    def perform(self, call: Call[Answer]) -> Answer: ...
    def converse(self, conversation: Conversation[Value]) -> Value: ...


class AsyncConverses(Protocol):
    async def perform(self, call: Call[Answer]) -> Answer: ...
    async def converse(self, conversation: Conversation[Value]) -> Value: ...


class Graphs:
    """`client.graphs`."""

    def __init__(self, client: Converses) -> None:
        self._client = client

    def get(
        self, graph_id: int, *, ancestors_of: str | int | None = None, descendants_of: str | int | None = None
    ) -> GraphDocument:
        """The whole graph, or those of its tasks that one waits for, or that wait for it."""
        return self._client.perform(
            graph_calls.graph(graph_id, ancestors_of=ancestors_of, descendants_of=descendants_of)
        )

    def list(self, *, limit: int | None = None, cursor: str | None = None, **wanted: Unpack[GraphFilter]) -> GraphPage:
        """The newest, also of one `name`, `schedule` or `user`, or `since` a time."""
        return self._client.perform(graph_calls.graphs(wanted, limit=limit, cursor=cursor))

    def wait(self, graph_id: int, timeout: float | None = None) -> GraphDocument:
        """The graph once all of its tasks have ended; `WaitTimeout` when the time is up."""
        return self._client.converse(graph_calls.wait(graph_id, timeout, time.monotonic))

    def cancel(self, graph_id: int) -> GraphCancelled:
        return self._client.perform(graph_calls.cancel(graph_id))

    def hold(self, graph_id: int, reason: str = "") -> GraphHeld:
        """Holds back everything of it that waits, until it is released."""
        return self._client.perform(graph_calls.hold(graph_id, reason))

    def release(self, graph_id: int) -> GraphHeld:
        """Lets everything of it that is held back go on."""
        return self._client.perform(graph_calls.release(graph_id))

    def retry(self, graph_id: int) -> GraphAgain:
        """What did not end well runs again, in the same graph."""
        return self._client.perform(graph_calls.retry(graph_id))

    def rerun(self, graph_id: int) -> GraphAgain:
        """All of it runs again, as a new graph."""
        return self._client.perform(graph_calls.rerun(graph_id))


class AsyncGraphs:
    """`client.graphs` of the awaiting client."""

    def __init__(self, client: AsyncConverses) -> None:
        self._client = client

    async def submit(self, graph: Built) -> SubmittedGraph:
        """Hands over a `Graph` that was built without a `with` block."""
        return await self._client.perform(graph_calls.submit(graph.name, graph.requests(), uuid.uuid4().hex))

    async def get(
        self, graph_id: int, *, ancestors_of: str | int | None = None, descendants_of: str | int | None = None
    ) -> GraphDocument:
        """The whole graph, or those of its tasks that one waits for, or that wait for it."""
        return await self._client.perform(
            graph_calls.graph(graph_id, ancestors_of=ancestors_of, descendants_of=descendants_of)
        )

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, **wanted: Unpack[GraphFilter]
    ) -> GraphPage:
        """The newest, also of one `name`, `schedule` or `user`, or `since` a time."""
        return await self._client.perform(graph_calls.graphs(wanted, limit=limit, cursor=cursor))

    async def wait(self, graph_id: int, timeout: float | None = None) -> GraphDocument:
        """The graph once all of its tasks have ended; `WaitTimeout` when the time is up."""
        return await self._client.converse(graph_calls.wait(graph_id, timeout, time.monotonic))

    async def cancel(self, graph_id: int) -> GraphCancelled:
        return await self._client.perform(graph_calls.cancel(graph_id))

    async def hold(self, graph_id: int, reason: str = "") -> GraphHeld:
        """Holds back everything of it that waits, until it is released."""
        return await self._client.perform(graph_calls.hold(graph_id, reason))

    async def release(self, graph_id: int) -> GraphHeld:
        """Lets everything of it that is held back go on."""
        return await self._client.perform(graph_calls.release(graph_id))

    async def retry(self, graph_id: int) -> GraphAgain:
        """What did not end well runs again, in the same graph."""
        return await self._client.perform(graph_calls.retry(graph_id))

    async def rerun(self, graph_id: int) -> GraphAgain:
        """All of it runs again, as a new graph."""
        return await self._client.perform(graph_calls.rerun(graph_id))
