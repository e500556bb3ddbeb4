"""The handle on one task."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Unpack

from rota.client._async.batch import AsyncBatch
from rota.client._async.sender import AsyncSender
from rota.client.calls import conversations, graph_calls, task_calls, waiting_calls
from rota.client.calls.outcomes import typed_result
from rota.client.options import Duration, EditOptions, LogOptions
from rota.client.transport.log_reader import LogItem
from rota.model.answers.task_changes import CancelAnswer, Extended, PauseAnswer
from rota.model.answers.tasks import AttemptDocument, TaskDocument
from rota.model.answers.waiting import TaskExplanation


class AsyncTaskHandle:
    """One task. Its methods ask the server; how it ended, which never changes, may come with another of its batch."""

    def __init__(
        self,
        client: AsyncSender,
        task_id: int,
        returns: object | None = None,
        *,
        batch: AsyncBatch | None = None,
        position: int = 0,
    ) -> None:
        self._client = client
        self.id = task_id
        self.returns = returns  # the type its result is converted to; None: the plain JSON value
        self._batch = batch  # the tasks that were submitted with it
        self._position = position  # its own among them

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    # sync: @property
    async def state(self) -> str:
        """The state now: blocked, delayed, ready, running, …"""
        return (await self.document()).state

    async def document(self) -> TaskDocument:
        """The task as it is now."""
        return await self._client.perform(task_calls.task(self.id))

    async def wait(self, timeout: float | None = None) -> TaskDocument:
        """The task's document once it has ended, in whatever state; `WaitTimeout` when the time is up.

        If the task may submit others and is in no other graph, all that it submitted has ended too.
        """
        if self._batch is not None:
            document = await self._batch.document(self._position, timeout)
            if not document.spec.get("may_submit"):
                return document
        return await self._client.converse(
            graph_calls.wait_with_submitted(self.id, timeout, time.monotonic, self._client.longest_wait_seconds)
        )

    async def result(self, timeout: float | None = None, *, type: object | None = None) -> Any:
        """The value that the task returned; `TaskFailed` (or a subclass) when it did not end `done`.

        Of tasks that were submitted together, one request fetches the results of many.
        With `type` (`date`, `list[UUID]`, a dataclass, …) the JSON value is converted to it.
        """
        kind = type if type is not None else self.returns
        if self._batch is not None:
            return typed_result(await self._batch.outcome(self._position, timeout), kind)
        ended = await self._client.converse(
            conversations.wait(self.id, timeout, time.monotonic, self._client.longest_wait_seconds)
        )
        return typed_result(ended, kind)

    async def log(self, **options: Unpack[LogOptions]) -> str:
        """The output of the latest (or the given) attempt so far; `stream` is stdout or stderr, None means both.

        `since` is `10m` or a time with its offset; `tail` is a number of lines from the end.
        """
        return (await self._client.perform(task_calls.log(self.id, **options))).decode(errors="replace")

    def follow(self) -> AsyncIterator[LogItem]:
        """The output as it comes, until the task has ended; the last item is a LogEnd."""
        return self._client.follow(self.id)

    async def why(self) -> TaskExplanation:
        """Why it waits, its position in the queue, and when it will probably start."""
        return await self._client.perform(waiting_calls.why(self.id))

    async def attempts(self) -> Sequence[AttemptDocument]:
        """Its attempts, with their nodes, times and outcomes."""
        return (await self._client.perform(task_calls.attempts(self.id))).attempts

    async def cancel(self, reason: str = "") -> CancelAnswer:
        """Cancels it; a running task is stopped."""
        return await self._client.perform(task_calls.cancel(self.id, reason))

    async def extend(self, by: Duration | None = None, *, cap: Duration | None = None) -> Extended:
        """Extends its time limit `by` a duration, or sets a new `cap`, counted from the start of an attempt."""
        return await self._client.perform(task_calls.extend(self.id, by=by, cap=cap))

    async def pause(self) -> PauseAnswer:
        """Pauses it; a running task is asked to save a checkpoint and stop."""
        return await self._client.perform(task_calls.pause(self.id))

    async def resume(self) -> PauseAnswer:
        """Resumes a paused task, from its checkpoint if it has one."""
        return await self._client.perform(task_calls.resume(self.id))

    async def edit(self, *, version: int | None = None, **changes: Unpack[EditOptions]) -> TaskDocument:
        """Changes priority, lane, cap, tolerance, pool or start time (at, delay) while it waits; see `Client.edit`."""
        return await self._client.converse(conversations.edited(self.id, changes, version))

    async def hold(self, reason: str = "") -> PauseAnswer:
        """Holds a waiting task until it is released; `Refused` if it runs."""
        return await self._client.perform(task_calls.hold(self.id, reason))

    async def release(self, reason: str = "") -> PauseAnswer:
        """Releases it, if it was held."""
        return await self._client.perform(task_calls.release(self.id, reason))

    async def retry(self, reason: str = "") -> AsyncTaskHandle:
        """Submits the same work as a new task; this one stays as it ended."""
        retried = await self._client.perform(task_calls.retry(self.id, reason))
        return AsyncTaskHandle(self._client, retried.id, self.returns)
