"""`client.graphs`, and the handle on an array. `graph.py` builds a graph; these read and change a submitted one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

from rota.client._async.sender import AsyncPart, AsyncSender
from rota.client.calls import graph_calls
from rota.client.calls.graph_calls import GraphFilter
from rota.model.answers.graphs import GraphAgain, GraphCancelled, GraphDocument, GraphHeld, GraphPage, SubmittedGraph
from rota.model.request.task_request import TaskRequest


class BuiltGraph(Protocol):
    """A graph that was built and can be submitted: see `Graph`."""

    name: str

    def requests(self) -> list[TaskRequest]: ...


@dataclass(frozen=True, slots=True)
class ArrayTask:
    """One task of an array, for `gather`."""

    id: int
    returns: object | None


class AsyncArrayHandle:
    """An array of tasks: wait for all, cancel all, and read the result of each."""

    def __init__(self, client: AsyncSender, array_id: int, returns: object | None = None) -> None:
        self._client = client
        self.id = array_id
        self.returns = returns

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    async def document(self) -> GraphDocument:
        """The array as it is now, with its tasks."""
        return await self._client.perform(graph_calls.graph(self.id))

    async def wait(self, timeout: float | None = None) -> GraphDocument:
        """The array once all of its tasks have ended; `WaitTimeout` when the time is up."""
        return await self._client.converse(
            graph_calls.wait(self.id, timeout, time.monotonic, self._client.longest_wait_seconds)
        )

    async def cancel(self) -> GraphCancelled:
        return await self._client.perform(graph_calls.cancel(self.id))

    async def results(self, timeout: float | None = None) -> Sequence[Any]:
        """The result of each task, in the order of the indexes; the first failure is raised."""
        members = (await self.document()).tasks
        return await self._client.gather([ArrayTask(task.id, self.returns) for task in members], timeout)


class AsyncGraphs(AsyncPart):
    """`client.graphs`: submit, get, list, wait, cancel, hold, release, retry, rerun."""

    async def submit(self, graph: BuiltGraph) -> SubmittedGraph:
        """Submits a `Graph` that was built without a `with` block: all of its tasks or none."""
        return await self._client.perform(graph_calls.submit(graph.name, graph.requests(), uuid.uuid4().hex))

    async def get(
        self, graph_id: int, *, ancestors_of: str | int | None = None, descendants_of: str | int | None = None
    ) -> GraphDocument:
        """The whole graph, or only the tasks that one task waits for, or only the tasks that wait for it."""
        return await self._client.perform(
            graph_calls.graph(graph_id, ancestors_of=ancestors_of, descendants_of=descendants_of)
        )

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, **filters: Unpack[GraphFilter]
    ) -> GraphPage:
        """One page, newest first; filtered by `name`, `schedule` or `user`, or `since` a time."""
        return await self._client.perform(graph_calls.graphs(filters, limit=limit, cursor=cursor))

    async def wait(self, graph_id: int, timeout: float | None = None) -> GraphDocument:
        """The graph once all of its tasks have ended; `WaitTimeout` when the time is up."""
        return await self._client.converse(
            graph_calls.wait(graph_id, timeout, time.monotonic, self._client.longest_wait_seconds)
        )

    async def cancel(self, graph_id: int) -> GraphCancelled:
        """Cancels all of its tasks; running ones are stopped."""
        return await self._client.perform(graph_calls.cancel(graph_id))

    async def hold(self, graph_id: int, reason: str = "") -> GraphHeld:
        """Holds all of its waiting tasks until they are released."""
        return await self._client.perform(graph_calls.hold(graph_id, reason))

    async def release(self, graph_id: int) -> GraphHeld:
        """Releases all of its held tasks."""
        return await self._client.perform(graph_calls.release(graph_id))

    async def retry(self, graph_id: int) -> GraphAgain:
        """Runs the tasks that did not end `done` again, in the same graph."""
        return await self._client.perform(graph_calls.retry(graph_id))

    async def rerun(self, graph_id: int) -> GraphAgain:
        """Runs all of its tasks again, as a new graph."""
        return await self._client.perform(graph_calls.rerun(graph_id))
