"""The awaited handle on one task. It names a call or a conversation and has its client send it; the twin of
`handle.py`, which can only differ in `await`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from rota.client.calls import conversations, edit_calls, task_calls, waiting_calls
from rota.client.calls.edit_calls import EditOptions
from rota.client.calls.outcomes import typed_result
from rota.client.options import Duration
from rota.client.transport.log_reader import LogItem
from rota.model.answers.tasks import AttemptDocument, CancelAnswer, Extended, PauseAnswer, TaskDocument
from rota.model.answers.waiting import WhyDocument

if TYPE_CHECKING:
    from rota.client._async.client import AsyncClient


class AsyncTaskHandle:
    """One task. It holds no state of its own: each question goes to the server."""

    def __init__(self, client: AsyncClient, task_id: int, returns: object | None = None) -> None:
        self._client = client
        self.id = task_id
        self.returns = returns  # the type its result is converted to; None: as JSON has it

    def __repr__(self) -> str:
        return f"AsyncTaskHandle({self.id})"

    async def state(self) -> str:
        """The state now: blocked, delayed, ready, running, …"""
        return (await self.document()).state

    async def document(self) -> TaskDocument:
        return await self._client.get(self.id)

    async def wait(self, timeout: float | None = None) -> TaskDocument:
        """The task's document once it has ended, however it ended; `WaitTimeout` when the time is up."""
        return await self._client.converse(conversations.wait(self.id, timeout, time.monotonic))

    async def result(self, timeout: float | None = None, *, type: object | None = None) -> Any:
        """What the task returned; `TaskFailed` (or its subclass) when it did not end `done`.

        With `type` (`date`, `list[UUID]`, a dataclass, …) the JSON value is converted to it.
        """
        return typed_result(await self.wait(timeout), type if type is not None else self.returns)

    async def log(
        self,
        *,
        attempt: int | None = None,
        stream: str | None = None,
        since: str | None = None,
        tail: int | None = None,
    ) -> str:
        """What the latest (or the named) attempt wrote so far; `stream` None means both.

        `since` is `10m` or a time with its offset; `tail` so many lines from the end.
        """
        return (await self._client.log(self.id, attempt=attempt, stream=stream, since=since, tail=tail)).decode(
            errors="replace"
        )

    def follow(self) -> AsyncIterator[LogItem]:
        """Output as it comes, until the task has ended; the last item is a LogEnd."""
        return self._client.follow(self.id)

    async def why(self) -> WhyDocument:
        """Why it waits, its place in line, and when it will probably start."""
        return await self._client.perform(waiting_calls.why(self.id))

    async def attempts(self) -> Sequence[AttemptDocument]:
        return await self._client.attempts(self.id)

    async def cancel(self) -> CancelAnswer:
        return await self._client.perform(task_calls.cancel(self.id))

    async def extend(self, by: Duration | None = None, *, cap: Duration | None = None) -> Extended:
        """Lets it run so much longer, or with a `cap` of so much, counted from the start of an attempt."""
        return await self._client.perform(task_calls.extend(self.id, by=by, cap=cap))

    async def pause(self) -> PauseAnswer:
        """Holds it back; if it runs, it is asked to save a checkpoint and stop."""
        return await self._client.perform(task_calls.pause(self.id))

    async def resume(self) -> PauseAnswer:
        """Lets it go on, from its checkpoint if it has one."""
        return await self._client.perform(task_calls.resume(self.id))

    async def edit(self, *, version: int | None = None, **changes: Unpack[EditOptions]) -> TaskDocument:
        """Changes priority, lane, cap, tolerance or pool while it waits; with `version`, only if it still is that."""
        return await self._client.edit(self.id, version=version, **changes)

    async def hold(self, reason: str = "") -> PauseAnswer:
        """Holds it back while it waits, until it is released; a running one is refused."""
        return await self._client.perform(edit_calls.hold(self.id, reason))

    async def release(self) -> PauseAnswer:
        """Lets it go on, if it was held."""
        return await self._client.perform(edit_calls.release(self.id))

    async def retry(self) -> AsyncTaskHandle:
        """A new task with the same work; this one stays as it ended."""
        return AsyncTaskHandle(self._client, (await self._client.perform(task_calls.retry(self.id))).id, self.returns)
